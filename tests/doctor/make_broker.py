"""Makes `broker/`, two log dirs of a Kafka 4.3.1 that was its own controller: python tests/doctor/make_broker.py

Needs ../shared/brokers beside the project. Ids and timestamps differ each time; names, offsets and sizes do not.
t-0 and u-0 are in d1; t-1 and u-1, which is empty, are in d0 with the cluster's metadata.
t-0 has four segments, batches of one and two records,
a committed transaction and an aborted one.
"""

from __future__ import annotations

import pathlib
import shutil
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SHARED = HERE.parents[2] / "shared"
SMALL = {"internal_segment_bytes": 1300, "segment_index_bytes": 1024, "index_interval_bytes": 0, "retention_ms": -1}
PATIENT = (1, 2, 1, 2, "commit", 1, 1, 2, 1, 2, 2, "abort", 1, 2, 1, 2, 1, 2, 1, 1, 2, 2, 1, 1, 1, 2, 1, 1)
OTHERS = (1, 2, 1, 2)


def feed(broker: Any, record: Any) -> None:
    producers = {"plain": broker.producer("plain"), "txn": broker.producer("txn", transactional_id="x")}

    def send(topic: str, partition: int, name: str, count: int) -> None:
        for n in range(count):
            sent = record(key=b"k%d" % (n % 5), value=b"v" * 60, timestamp=int(time.time() * 1000))
            producers[name].send(topic, partition, sent)
        producers[name].flush()
        time.sleep(0.01)

    for topic, partition, batches in (("t", 0, PATIENT), ("t", 1, OTHERS), ("u", 0, OTHERS)):
        for batch in batches:
            if isinstance(batch, int):
                send(topic, partition, "plain", batch)
            else:
                producers["txn"].begin()
                send(topic, partition, "txn", 2)
                getattr(producers["txn"], batch)()


def is_as_wanted(work: pathlib.Path) -> bool:
    return all((work / name).is_dir() for name in ("d1/t-0", "d1/u-0", "d0/t-1"))


def feed_new_log_dirs(module: Any, version: str, place: pathlib.Path) -> pathlib.Path:
    """Make d0 and d1 in a new folder of this place by a broker of this release, and return the folder. module: the
    helper of ../shared."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": 2500}
    sizes = SMALL if version.startswith("4") else {**SMALL, "segment_bytes": SMALL["internal_segment_bytes"]}
    if "segment_bytes" in sizes:
        del sizes["internal_segment_bytes"]
    while True:
        work = pathlib.Path(tempfile.mkdtemp(dir=place))
        dirs = [work / "d0", work / "d1"]
        with module.Broker(version, work, log_dir=dirs, metadata_in_log_dir=True, config=settings) as broker:
            broker.create_topic("t", 2, **sizes)
            broker.create_topic("u", 2, **sizes)
            time.sleep(2)  # folders are made a moment after the answer
            if is_as_wanted(work):
                feed(broker, module.Record)
        if is_as_wanted(work):
            return work


def main() -> None:
    sys.path.insert(0, str(SHARED / "brokers"))
    import broker

    with tempfile.TemporaryDirectory() as place:
        made = feed_new_log_dirs(broker, "4.3.1", pathlib.Path(place))
        for name in ("d0", "d1"):
            shutil.rmtree(HERE / "broker" / name, ignore_errors=True)
            shutil.copytree(made / name, HERE / "broker" / name, ignore=shutil.ignore_patterns(".lock"))


if __name__ == "__main__":
    main()
