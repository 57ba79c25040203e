"""A broker is killed after retention renamed segments to `.deleted`, and before a background thread wrote the leader
epochs. No start raises them to the first segment, and no clean stop: so epochs below it do not tell that somebody
removed segments.

Of the logs that kills at the sight of a `.deleted` file left, most had the old epochs (4.3.1: 4 of 5 and 5 of 5). Who
wins is chance, so here the file is put back as it was.
"""

from __future__ import annotations

import json
import pathlib
import time

import pytest

from .beside import module_beside
from .brokers import VERSIONS, a_broker
from .test_brokers_start_on_it import klogtool as run

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
LATER = {"log.initial.task.delay.ms": 1000, "log.retention.check.interval.ms": 1000}
NEVER = {"log.initial.task.delay.ms": 600_000}
OLD_EPOCHS = "0\n1\n0 0\n"


def wait_for_deleted(partition: pathlib.Path) -> None:
    end = time.monotonic() + 60
    while not list(partition.glob("*.log.deleted")):
        assert time.monotonic() < end
        time.sleep(0.01)


def told(log_dir: pathlib.Path, partition: pathlib.Path) -> list[object]:
    """What is missing before the first segment, by the doctor and by recover."""
    done = [run(*words, "--format", "json") for words in (("doctor", log_dir), ("recover", partition))]
    doctor, recover = ([json.loads(line) for line in each.out.splitlines()] for each in done)
    claim = next(row for row in doctor if row.get("about") == "partition" and row["path"] == str(partition))
    (answer,) = (row["answer"] for row in recover if row["type"] == "plan")
    return [claim["gone_already"], claim["log_start_offset"], answer["missing"], answer.get("perhaps_missing")]


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_epochs_stay_where_the_log_began(version: str, tmp_path: pathlib.Path) -> None:
    with a_broker(version, tmp_path, metadata_in_log_dir=True, config=LATER) as broker:
        broker.start()
        record = module_beside("brokers/broker.py").Record
        small = {"internal_segment_bytes": 300} if version == "4.3.1" else {"segment_bytes": 300}
        broker.create_topic("t", 1, retention_ms=-1, **small)
        for n in range(6):
            broker.produce("t", 0, [record(bytes(200), b"k%d" % n, 1_700_000_000_000 + n)])
        log_dir, partition = broker.log_dirs[0], broker.log_dirs[0] / "t-0"
        epochs = partition / "leader-epoch-checkpoint"
        assert epochs.read_text() == OLD_EPOCHS
        broker.alter_topic("t", retention_ms=1)
        wait_for_deleted(partition)
        broker.kill()
        epochs.write_text(OLD_EPOCHS)
        nothing = {"ranges": [], "witness": [], "reason": None, "perhaps": []}
        assert told(log_dir, partition) == [nothing, 6, [], None]  # the .deleted files tell
        broker.config.update(NEVER)
        unknown = {"ranges": None, "witness": [], "reason": "retention", "perhaps": [[0, 5]]}
        for is_clean in (False, True, True):
            broker.start()
            assert broker.offsets("t", 0) == (6, 6)
            assert not list(partition.glob("*.deleted"))
            broker.stop() if is_clean else broker.kill()
            assert epochs.read_text().splitlines()[2] == "0 0"
            assert told(log_dir, partition) == [unknown, 6, [], [{"first_offset": 0, "last_offset": 5}]]
