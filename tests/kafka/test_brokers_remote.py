"""Brokers serve what `klogtool remote` brings back: a topic of the store; the store after its metadata was lost."""

from __future__ import annotations

import json
import shutil
import time
from typing import Any

import pytest
from running import Done, run_here

from klogtool.log.partition import Partition

from .beside import module_beside
from .brokers import a_broker
from .local_tier import tiered
from .test_brokers_start_on_it import HERE, a_scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly]

VERSIONS = ("4.3.1", "3.9.2", "4.4.0")
TOPIC, METADATA, RECORDS = "t", "__remote_log_metadata", 60


def run(*words: object) -> Done:
    return run_here(["remote", *map(str, words)], HERE)


def settings_of(version: str) -> dict[str, Any]:
    size = "internal.segment.bytes" if version.startswith("4") else "segment.bytes"
    return {"remote.storage.enable": "true", "local.retention.bytes": 500, size: 1000}


def seen(broker: Any) -> list[tuple[int, bytes, bytes]]:
    return [(one.offset, one.key, one.value) for one in broker.consume(TOPIC, 0)]


def fill(version: str, broker: Any) -> list[tuple[int, bytes, bytes]]:
    """Records, most of which are only in remote storage."""
    record = module_beside("brokers/broker.py").Record
    broker.create_topic(TOPIC, 1, **settings_of(version), **{"file.delete.delay.ms": 1, "retention.ms": -1})
    for n in range(RECORDS):
        broker.produce(TOPIC, 0, [record(key=b"%d" % n, value=b"x" * 60)])
    until = time.monotonic() + 60
    while (broker.log_dirs[0] / f"{TOPIC}-0" / f"{0:020d}.log").exists():
        assert time.monotonic() < until, "nothing was moved to remote storage"
        time.sleep(0.3)
    return seen(broker)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_and_its_metadata_come_back(version: str) -> None:
    with a_scratch_folder() as work, tiered(version, work) as broker:
        broker.start()
        records = fill(version, broker)
        broker.stop()
        assert len(records) == RECORDS
        store, log_dir = work / "remote/kafka-tiered-storage", broker.log_dirs[0]
        words = ["--metadata", log_dir, "--local", log_dir]
        assert run("verify", store, *words, "--fail-on", "warning").status == 0
        assert run("fetch", store, f"{TOPIC}-0", *words, "--output", work / "t-0").status == 0

        rebuilt = work / "rebuilt"
        assert run("metadata", store, "--partitions", 1, "--output", rebuilt).status == 0
        shutil.rmtree(log_dir / "remote-log-index-cache", ignore_errors=True)
        broker.plant(rebuilt / f"{METADATA}-0", METADATA, 0, clean=True)
        broker.start()
        assert seen(broker) == records
        broker.stop()

        with a_broker(version, work / "plain") as plain:
            plain.start()
            plain.create_topic(TOPIC, 1, **{"retention.ms": -1})
            plain.stop()
            plain.plant(work / "t-0", TOPIC, 0, clean=True, recovery_point=RECORDS, high_watermark=RECORDS)
            plain.start()
            assert seen(plain) == records
            plain.stop()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_absent", [False, True])
def test_a_start_without_the_metadata_forgets_what_the_doctor_said(version: str, is_absent: bool) -> None:
    """is_absent: the folder of the topic is gone; else its log is empty."""
    with a_scratch_folder() as work, tiered(version, work) as broker:
        broker.start()
        fill(version, broker)
        broker.stop()
        home = broker.log_dirs[0] / f"{METADATA}-0"
        if is_absent:
            shutil.rmtree(home)
        for path in home.iterdir() if home.exists() else ():
            if path.name != "partition.metadata":
                path.write_bytes(b"") if path.suffix == ".log" else path.unlink()
        dirs = [str(path) for path in (*broker.log_dirs, broker.metadata_dir)]
        rows = run_here(["doctor", *dict.fromkeys(dirs), "--kafka", version, "--json"], HERE).out.splitlines()
        found = list(map(json.loads, rows))
        (point,) = [row for row in found if row.get("what") == "remote-forgotten"]
        (claim,) = [row for row in found if row.get("about") == "partition" and row["path"].endswith(f"/{TOPIC}-0")]
        start = point["last_offset"] + 1
        assert (point["first_offset"], claim["log_start_offset"], claim["log_end_offset"]) == (0, start, RECORDS)
        broker.start()
        until = time.monotonic() + 30
        while broker.offsets(TOPIC, 0)[0] == 0:
            assert time.monotonic() < until, "the log start stayed"
            time.sleep(0.3)
        assert (broker.offsets(TOPIC, 0), len(seen(broker))) == ((start, RECORDS), RECORDS - start)
        broker.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_start_without_the_leader_epochs_forgets_what_the_doctor_said(version: str) -> None:
    with a_scratch_folder() as work, tiered(version, work) as broker:
        broker.start()
        fill(version, broker)
        broker.stop()
        (broker.log_dirs[0] / f"{TOPIC}-0/leader-epoch-checkpoint").unlink()
        dirs = [str(path) for path in (*broker.log_dirs, broker.metadata_dir)]
        rows = run_here(["doctor", *dict.fromkeys(dirs), "--kafka", version, "--json"], HERE).out.splitlines()
        (point,) = [row for row in map(json.loads, rows) if row.get("what") == "remote-forgotten"]
        start = point["last_offset"] + 1
        broker.start()
        until = time.monotonic() + 30
        while broker.offsets(TOPIC, 0)[0] == 0:
            assert time.monotonic() < until, "the log start stayed"
            time.sleep(0.3)
        assert (broker.offsets(TOPIC, 0), len(seen(broker))) == ((start, RECORDS), RECORDS - start)
        assert "deletes these segments from remote storage" in point["detail"]
        until = time.monotonic() + 60
        while list((work / "remote").rglob("*.log")):
            assert time.monotonic() < until, "they are still there"
            time.sleep(0.3)
        broker.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_metadata_is_rebuilt_where_its_dir_is_gone_and_a_log_was_cut(version: str) -> None:
    """The dir gets its partition.metadata, and consumers pass over what was cut, as with the broker's own records."""
    with a_scratch_folder() as work, tiered(version, work) as broker:
        broker.start()
        records = fill(version, broker)
        broker.stop()
        store, log_dir, rebuilt = work / "remote/kafka-tiered-storage", broker.log_dirs[0], work / "rebuilt"
        log = sorted(store.glob(f"{TOPIC}-0-*/*.log"))[1]
        data = log.read_bytes()
        log.write_bytes(data[: 12 + int.from_bytes(data[8:12], "big")])
        shutil.rmtree(log_dir / f"{METADATA}-0")
        shutil.rmtree(log_dir / "remote-log-index-cache", ignore_errors=True)
        local = [word for path in (log_dir, broker.metadata_dir) for word in ("--local", path)]
        done = run("metadata", store, *local, "--output", rebuilt, "--json")
        (answer,) = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "answer"]
        (lost,) = answer["missing"]
        shutil.copytree(rebuilt / f"{METADATA}-0", log_dir / f"{METADATA}-0")
        broker.start()
        gone = range(lost["first_offset"], lost["last_offset"] + 1)
        assert seen(broker) == [record for n, record in enumerate(records) if n not in gone]
        broker.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_segment_without_a_producer_snapshot_is_copied_once_it_has_one(version: str) -> None:
    with a_scratch_folder() as work, tiered(version, work) as broker:
        broker.start()
        record = module_beside("brokers/broker.py").Record
        settings = settings_of(version) | {"remote.log.copy.disable": "true", "local.retention.bytes": -1}
        broker.create_topic(TOPIC, 1, **settings, **{"retention.ms": -1})
        for n in range(RECORDS):
            broker.produce(TOPIC, 0, [record(key=b"%d" % n, value=b"x" * 60)])
        broker.stop()
        home = broker.log_dirs[0] / f"{TOPIC}-0"
        bases = sorted(int(path.stem) for path in home.glob("*.log"))
        (home / f"{bases[1]:020d}.snapshot").unlink()
        store = work / "remote/kafka-tiered-storage"
        broker.start()
        broker.alter_topic(TOPIC, **{"remote.log.copy.disable": "false"})
        until = time.monotonic() + 40
        while '"producerStateSnapshotFile" is null' not in broker.log_text():
            assert time.monotonic() < until, "it was copied"
            time.sleep(0.5)
        assert not list(store.rglob("*.log"))
        broker.stop()
        dirs = [str(path) for path in (*broker.log_dirs, broker.metadata_dir)]
        rows = [json.loads(line) for line in run_here(["doctor", *dirs, "--json"], HERE).out.splitlines()]
        (point,) = [row for row in rows if row.get("what") == "copy-fails"]
        (option,) = [row for row in rows if row["type"] == "option" and row["for"] == point["path"]]
        assert run_here(option["command"].split()[1:], HERE).status == 0
        broker.start()
        until = time.monotonic() + 40
        while len(list(store.rglob("*.log"))) < len(bases) - 1:
            assert time.monotonic() < until, "it was not copied"
            time.sleep(0.5)
        broker.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_start_without_the_metadata_did_is_undone(version: str) -> None:
    """As docs/remote.md says: the log start and the leader epochs, then the rebuilt topic."""
    with a_scratch_folder() as work, tiered(version, work) as broker:
        broker.start()
        records = fill(version, broker)
        broker.stop()
        store, log_dir, rebuilt = work / "remote/kafka-tiered-storage", broker.log_dirs[0], work / "rebuilt"
        for path in (log_dir / f"{METADATA}-0").iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        broker.start()
        until = time.monotonic() + 60
        while broker.offsets(TOPIC, 0)[0] == 0:
            assert time.monotonic() < until, "the log start stayed"
            time.sleep(0.3)
        time.sleep(3)  # it uploads the local segments once more
        broker.stop()

        home = log_dir / f"{TOPIC}-0"
        newest = max(store.glob(f"{TOPIC}-0-*/*.leader_epoch_checkpoint"), key=lambda path: path.name)
        own = (home / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        lines = newest.read_text().splitlines()[2:]
        later = [line for line in own if int(line.split()[0]) > int(lines[-1].split()[0])]
        (home / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines + later)), *lines, *later, ""]))
        assert run("metadata", store, "--partitions", 1, "--output", rebuilt).status == 0
        broker.plant(rebuilt / f"{METADATA}-0", METADATA, 0, clean=True)
        starts = log_dir / "log-start-offset-checkpoint"
        module = module_beside("brokers/broker.py")
        module.write_checkpoint(starts, module.read_checkpoint(starts) | {(TOPIC, 0): 0})
        shutil.rmtree(log_dir / "remote-log-index-cache", ignore_errors=True)
        broker.start()
        assert seen(broker) == records
        broker.stop()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("has_tail", [True, False], ids=["with its tail", "remote only"])
def test_another_cluster_serves_the_objects_of_a_topic(version: str, has_tail: bool) -> None:
    with a_scratch_folder() as work:
        for name in ("old", "new"):
            (work / name).mkdir()
        with tiered(version, work / "old") as old:
            old.start()
            records = fill(version, old)
            old.stop()
            tail = old.log_dirs[0] / f"{TOPIC}-0"
            (objects,) = (work / "old/remote/kafka-tiered-storage").glob(f"{TOPIC}-0-*")
        with tiered(version, work / "new") as new:
            new.start()
            new.create_topic(TOPIC, 1, **settings_of(version), **{"retention.ms": -1})
            new.stop()
            store, home = work / "new/remote/kafka-tiered-storage", new.log_dirs[0] / f"{TOPIC}-0"
            topic_id = Partition(str(home)).topic_id
            shutil.copytree(objects, store / f"{TOPIC}-0-{topic_id}")
            done = run("metadata", store, "--adopt", topic_id, "--partitions", 1, "--output", work / "rebuilt")
            assert done.status == 0, done.told
            new.plant(work / "rebuilt" / f"{METADATA}-0", METADATA, 0, clean=True)
            if not has_tail:
                rows = map(json.loads, run("ls", store, "--json").out.splitlines())
                end = next(row["end_offset"] for row in rows if row["type"] == "partition")
                tail = work / "tail"
                shutil.copytree(home, tail)
                done = run_here(["truncate", str(tail), "--start-at", str(end), "--apply"], HERE)
                assert done.status == 0, done.told
                records = records[:end]
            new.plant(tail, TOPIC, 0, clean=True, log_start=0, recovery_point=len(records))
            (home / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
            new.start()
            assert seen(new) == records
            record = module_beside("brokers/broker.py").Record
            new.produce(TOPIC, 0, [record(key=b"more", value=b"x" * 60)])
            new.stop()
            new.start()
            assert seen(new) == [*records, (len(records), b"more", b"x" * 60)]
            new.stop()


@pytest.mark.timeout(900)  # ten starts
def test_a_broker_whose_metadata_is_older_finds_no_segments_of_later_epochs() -> None:
    """As the doctor says, from the offset on that it names. Its way out brings them back."""
    version, elections, old = "4.3.1", (8, 17, 26, 35), 17
    with a_scratch_folder() as work, tiered(version, work) as broker:
        record = module_beside("brokers/broker.py").Record
        broker.start()
        broker.create_topic(TOPIC, 1, **settings_of(version), **{"file.delete.delay.ms": 1, "retention.ms": -1})
        for n in range(RECORDS):
            if n in elections:
                broker.stop()
                if n == old:
                    shutil.copytree(broker.metadata_dir, work / "old")
                broker.start()
            broker.produce(TOPIC, 0, [record(key=b"%d" % n, value=b"x" * 60)])
        home = broker.log_dirs[0] / f"{TOPIC}-0"
        until = time.monotonic() + 60
        while min(int(log.stem) for log in home.glob("*.log")) < elections[-1]:
            assert time.monotonic() < until, "nothing was moved to remote storage"
            time.sleep(0.3)
        records = seen(broker)
        broker.stop()
        saved = (home / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        shutil.rmtree(broker.metadata_dir)
        (work / "old").rename(broker.metadata_dir)
        rows = run_here(["doctor", *map(str, (*broker.log_dirs, broker.metadata_dir)), "--json"], HERE).out.splitlines()
        (point,) = [row for row in map(json.loads, rows) if row.get("what") == "remote-forgotten"]
        lost = range(point["first_offset"], point["last_offset"] + 1)
        assert (lost.start, "has not given their leader epochs yet" in point["detail"]) == (old, True)

        broker.start()
        asked = (broker.consume(TOPIC, 0, offset, offset + 1) for offset in range(RECORDS))
        assert [one.offset for answer in asked for one in answer] == [n for n in range(RECORDS) if n not in lost]

        broker.stop()

        newest, later = int(saved[-1].split()[0]), list[str]()
        while not later:  # each start gives a higher leader epoch
            broker.start()
            broker.produce(TOPIC, 0, [record(key=b"more", value=b"x")])
            broker.stop()
            lines = (home / "leader-epoch-checkpoint").read_text().splitlines()[2:]
            later = [line for line in lines if int(line.split()[0]) > newest]
        lines = [*saved, *later]
        (home / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        broker.start()
        assert seen(broker)[:RECORDS] == records
        broker.stop()
