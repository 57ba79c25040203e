"""A set of generated disks: what `fleet check --restored` takes, beside reading the JSON of the same files alone.

`python restored_set.py FOLDER [BROKERS COPIES]` makes a file of `fleet collect` for each broker (60 of 10,000 partition
dirs), each with the metadata of all partitions, of which three brokers have a copy. In two of three partitions the copy
of one broker is older. It prints processor seconds and peak memory of both, and their ratio.
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
from collections.abc import Iterator

from measuring import Samples, Table

from klogtool.cli.show import header
from klogtool.fleet.collected import (
    COMMAND,
    FORMAT,
    BrokerFacts,
    CopyFacts,
    Epoch,
    LogDirFacts,
    MetadataFacts,
    PartitionFacts,
    TopicFacts,
)
from klogtool.fleet.framed import LastLine
from klogtool.format.uuids import build_uuid
from klogtool.json_rows import row_line

KLOGTOOL = str(pathlib.Path(sys.executable).with_name("klogtool"))
READS = """
import sys, msgspec
from klogtool.fleet.collected import Row
from klogtool.fleet.framed import LastLine
decoder = msgspec.json.Decoder(Row | LastLine, dec_hook=lambda kind, value: kind.TEXT(text=value))
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        for line in list(file)[1:]:
            decoder.decode(line)
"""
PER_TOPIC, REPLICAS, END, OLDER, CONTROLLERS = 10, 3, 1000, 100, (0, 1, 2)
FINE = (0, 1)  # exit statuses: the set loses something


def id_of(number: int) -> str:
    """A topic's or directory's id."""
    return build_uuid(hashlib.blake2b(b"%d" % number, digest_size=16).digest())


def partition_of(number: int, brokers: int) -> PartitionFacts:
    topic, partition = divmod(number, PER_TOPIC)
    step = 1 + topic % ((brokers - 1) // (REPLICAS - 1))  # so no replica is there twice
    replicas = tuple((number + n * step) % brokers for n in range(REPLICAS))
    directories = tuple(id_of(-1 - node) for node in replicas)
    return PartitionFacts(
        f"topic-{topic}", id_of(topic), partition, replicas, replicas, (), replicas[0], 5, 7, directories
    )


def copy_of(number: int, known: PartitionFacts, node: int) -> CopyFacts:
    end = END - OLDER if number % 3 and node == known.replicas[number % REPLICAS] else END
    epochs = (Epoch(0, 0), Epoch(5, 500))
    ends = {"log_end_offset": end, "sound_end_offset": end, "reached_offset": end}
    sizes = {"segments": 1, "batches": end, "records": end, "bytes": 100 * end}
    marks = {"recovery_point": end, "high_watermark": end, "newest_timestamp": 1_700_000_000_000}
    folder, fingerprint = f"{known.topic}-{known.partition}", hashlib.blake2b(b"%d" % number, digest_size=16)
    place = (known.topic, known.partition, f"/data/{node}", folder, "current", fingerprint.hexdigest(), known.topic_id)
    return CopyFacts(*place, epochs=epochs, checkpoint_epochs=epochs, **ends, **sizes, **marks)


def broker_of(node: int) -> BrokerFacts:
    log_dir = LogDirFacts(f"/data/{node}", node, "NmugKK5HRqOZ6ob2pMJQaw", id_of(-1 - node), 1)
    features = {"metadata.version": 25}
    metadata = MetadataFacts(log_dir.path, 1_000_000, features, epoch=9, controllers=CONTROLLERS)
    return BrokerFacts(FORMAT, node, log_dir.cluster_id, (log_dir,), metadata, "4.3")


def make_set(folder: pathlib.Path, brokers: int, copies: int) -> Iterator[pathlib.Path]:
    """Yield the files. What all have alike is made once."""
    known = [partition_of(number, brokers) for number in range(brokers * copies // REPLICAS)]
    topics = {one.topic: TopicFacts(one.topic, one.topic_id) for one in known}
    shared = [row_line(row).encode() + b"\n" for row in (*topics.values(), *known)]
    held: list[list[int]] = [[] for _ in range(brokers)]
    for number, one in enumerate(known):
        for node in one.replicas:
            held[node].append(number)
    for node, numbers in enumerate(held):
        rows = (copy_of(number, known[number], node) for number in numbers)
        own = [row_line(row).encode() + b"\n" for row in rows]
        lines = [*(row_line(row).encode() + b"\n" for row in (header(COMMAND), broker_of(node))), *shared, *own]
        summed = hashlib.blake2b(digest_size=16)
        path = folder / f"broker-{node}.klog"
        with path.open("wb") as file:
            for line in lines:
                summed.update(line)
                file.write(line)
            file.write(row_line(LastLine(len(lines), summed.hexdigest())).encode() + b"\n")
        yield path


def main(folder: pathlib.Path, brokers: int = 60, copies: int = 10_000) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    files = [str(path) for path in make_set(folder, brokers, copies)]
    judging = Samples([KLOGTOOL, "fleet", "check", "--restored", *files], FINE)
    reading = Samples([sys.executable, "-c", READS, *files])
    table = Table("what", "processor s", "peak MiB")
    for name, samples in (("fleet check --restored", judging), ("their JSON alone", reading)):
        samples.run()
        table.add(name, f"{samples.processor_seconds[0]:.1f}", f"{samples.peak:,.0f}")
    ratio = judging.processor_seconds[0] / reading.processor_seconds[0]
    print(f"{brokers} files, {sum(pathlib.Path(path).stat().st_size for path in files):,} bytes; ratio {ratio:.1f}")
    for path in files:
        pathlib.Path(path).unlink()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:4]))
