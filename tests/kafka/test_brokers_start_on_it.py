"""Brokers start on what klogtool wrote: they find nothing to mend, and serve every record that should be there.

One broker of each release lives three times over the same log dir. It is fed, and killed. Then each of its partitions
is damaged in a way of its own, and mended by klogtool; the second life finds no clean marker, so it recovers all of it
from offset 0, and leaves every file as it was. Behind its stop the disk loses more, the marker as well; klogtool mends
the log dir as a whole and marks it clean, takes that back, and does it again; the third life believes the marker.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from .brokers import CUTS, VERSIONS, Served, a_broker, kept_files, records_of, served
from .kafka import scratch_folder

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "disk")]

from damage import append_bytes, flip_bit, tear_at  # noqa: E402
from made import picture  # noqa: E402
from running import FIXTURES, Done, run_here  # noqa: E402
from salvaging import batches, logs  # noqa: E402

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]
Path: TypeAlias = pathlib.Path
LIVE = "live"

# Wounds: what they do to a partition dir; the offset from which on records are lost, or None.


def tear_last_batch(partition: Path) -> int | None:
    last = list(batches(partition))[-1]
    tear_at(partition / last.name, last.position + len(last.data) - 3)
    return last.first_offset


def flip_in_the_middle(partition: Path) -> int | None:
    """In a segment that has others behind it."""
    of_one = [batch for batch in batches(partition) if batch.name == logs(partition)[-2].name]
    batch = of_one[len(of_one) // 2]
    flip_bit(partition / batch.name, batch.position + len(batch.data) - 2)
    return batch.first_offset


def zero_tail(partition: Path) -> int | None:
    append_bytes(logs(partition)[-1], bytes(5000))
    return None


def garbage_tail(partition: Path) -> int | None:
    append_bytes(logs(partition)[-1], random.Random(1).randbytes(300))
    return None


def lose_side_files(partition: Path) -> int | None:
    for path in partition.iterdir():
        if path not in logs(partition) and path.name != "partition.metadata":
            path.unlink()
    return None


def spoil_indexes(partition: Path) -> int | None:
    for path in [*partition.glob("*.index"), *partition.glob("*.timeindex")]:
        path.write_bytes(random.Random(path.name).randbytes(36))
    return None


def interrupt_cleaning(partition: Path) -> int | None:
    """One segment waits to be swapped, and another's cleaning had just begun: the swap is not complete."""
    first, second = logs(partition)[:2]
    shutil.copy2(first, f"{first}.swap")
    second.with_suffix(".log.cleaned").write_bytes(second.read_bytes()[:100])
    return None


def spoil_epochs_and_snapshots(partition: Path) -> int | None:
    (partition / "leader-epoch-checkpoint").unlink()
    for path in partition.glob("*.snapshot"):
        path.write_bytes(b"\0\1 no snapshot")
    return None


@dataclass(frozen=True)
class Wounded:
    """A sound partition, what is done to it, and what mends it."""

    source: str
    wound: Callable[[Path], int | None]
    command: tuple[str, ...] = ("recover",)


REBUILD = ("rebuild-index",)
TOPICS = {
    "torn": Wounded("transactions/logdir/t-0", tear_last_batch),
    "flipped": Wounded("three-magics/logdir/plain-0", flip_in_the_middle),
    "zeros": Wounded("every-codec/logdir/create-4", zero_tail),
    "garbage": Wounded("magic-0/logdir/create-2", garbage_tail),
    "spoiled": Wounded("three-magics/logdir/packed-0", spoil_indexes),
    "cleaning": Wounded("compacted/result-2/gone-0", interrupt_cleaning),
    "epochs": Wounded("leader-epochs/logdir/t-0", spoil_epochs_and_snapshots),
    "bare": Wounded("transactions/logdir/t-1", lose_side_files, REBUILD),
    "bare-old": Wounded("magic-1/logdir/append-1", lose_side_files, REBUILD),
    "bare-packed": Wounded("three-magics/logdir/packed-0", lose_side_files, REBUILD),
}
# What befalls the log dir before its last life.
LATER: dict[str, Callable[[Path], int | None]] = {
    "garbage": tear_last_batch,
    "spoiled": flip_in_the_middle,
    "zeros": lose_side_files,
    "cleaning": spoil_indexes,
    LIVE: zero_tail,
}


@dataclass(frozen=True)
class Life:
    """A broker's life over what klogtool wrote. Of each topic, files before and after; and what it served."""

    said: str
    served: dict[str, Served]
    expected: dict[str, Served]
    before: dict[str, Mapping[str, bytes]]
    after: dict[str, Mapping[str, bytes]]


@dataclass(frozen=True)
class Story:
    """All that was seen. in_use: what was answered while the broker ran; journal_made: whether something was begun.

    undone: the log dir before `--apply`, and after its `undo`.
    """

    after_kill: Life
    marked_clean: Life
    read_committed: tuple[Served, Served]
    in_use: list[Done]
    journal_made: bool
    undone: tuple[Any, Any]


def up_to(records: Served, offset: int | None) -> Served:
    return [record for record in records if offset is None or record[0] < offset]


def klogtool(*words: str | Path) -> Done:
    return run_here([str(word) for word in (*words, "--config", "segment.index.bytes=65536")], HERE)


def feed(broker: Any) -> tuple[Served, Served]:
    """All that a topic was given, and what of it is read committed: less the aborted, and what is behind the open one.

    Transactions stay open for as long as the whole test takes.
    """
    record = sys.modules[type(broker).__module__].Record
    producers = {
        name: broker.producer(name, transactional_id=name, transaction_timeout_ms=900_000)
        for name in ("commit", "abort", "open")
    }
    producers["plain"] = broker.producer("plain")
    given: Served = []
    committed: Served = []
    for n, fate in enumerate(("plain", "commit", "abort", "plain", "commit", "open", "plain", "commit", "plain")):
        producer = producers[fate]
        sent = [(b"k%d" % k, b"%s %d %d " % (fate.encode(), n, k) + b"v" * 500) for k in range(4)]
        if fate != "plain":
            producer.begin()
        for key, value in sent:
            producer.send(LIVE, 0, record(key=key, value=value))
        offsets = producer.flush()
        if fate in ("commit", "abort"):
            getattr(producer, fate)()
        given += [(offset, *pair) for offset, pair in zip(offsets, sent, strict=True)]
        if fate in ("plain", "commit") and n < 5:
            committed += given[-4:]
    return given, committed


def mend(damaged: Path, wounded: Wounded, at: Path) -> tuple[Path, int | None]:
    """What klogtool makes of it elsewhere, and the offset from which on records are lost."""
    lost = wounded.wound(damaged)
    done = klogtool(*wounded.command, damaged, "--output", at / damaged.name)
    assert done.status in (0, 1), done.err  # 1: records are lost
    return at / damaged.name, lost


def live(broker: Any, expected: dict[str, Served]) -> Life:
    """Start it, and read everything. What is there after its life is not known yet."""
    partitions = {topic: broker.partition_dir(topic, 0) for topic in expected}
    before = {topic: kept_files(path) for topic, path in partitions.items()}
    broker.start()
    found = {topic: served(broker, topic) for topic in expected}
    said = broker.log_text()
    return Life(said, found, expected, before, {})


def stopped(broker: Any, life: Life) -> Life:
    broker.stop()
    after = {topic: kept_files(broker.partition_dir(topic, 0)) for topic in life.expected}
    return Life(life.said, life.served, life.expected, life.before, after)


@contextmanager
def a_scratch_folder() -> Iterator[Path]:
    """In memory: brokers sync everything they write."""
    folder = scratch_folder("klogtool-brokers-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def tell(broker: Any, scratch: Path) -> Story:
    """All three lives."""
    small = {"internal_segment_bytes": 9000} if broker.version == "4.3.1" else {"segment_bytes": 9000}
    broker.start()
    broker.create_topic(LIVE, 1, retention_ms=-1, **small)
    for topic in TOPICS:
        broker.create_topic(topic, 1, retention_ms=-1)
    given, committed = feed(broker)
    broker.kill()

    expected = {}
    (scratch / "mended").mkdir()
    shutil.copytree(broker.partition_dir(LIVE, 0), scratch / "live")
    for topic, wounded in {**TOPICS, LIVE: Wounded(str(scratch / "live"), tear_last_batch)}.items():
        damaged = Path(shutil.copytree(FIXTURES / wounded.source, scratch / "damaged" / f"{topic}-0"))
        sound = given if topic == LIVE else records_of(damaged)
        mended, lost = mend(damaged, wounded, scratch / "mended")
        broker.plant(mended, topic, 0)
        expected[topic] = up_to(sound, lost)
    first = live(broker, expected)
    read_committed = served(broker, LIVE, isolation="read_committed"), committed

    (log_dir,) = broker.log_dirs
    in_use = [
        klogtool("recover", log_dir, "--apply", "--last-stop", "unclean"),
        klogtool("rebuild-index", broker.partition_dir("bare", 0), "--apply"),
    ]
    journal_made = Path(f"{log_dir}.klogtool").exists()
    first = stopped(broker, first)

    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (log_dir / name).unlink()
    expected = {
        topic: up_to(records, LATER[topic](broker.partition_dir(topic, 0)) if topic in LATER else None)
        for topic, records in expected.items()
    }
    wounded_dir = picture(log_dir)
    words = ("recover", log_dir, "--apply", "--mark-clean")
    assert klogtool(*words).status == 1  # records are lost, as it says
    assert run_here(["undo", str(log_dir)], HERE).status == 0
    undone = wounded_dir, picture(log_dir)
    assert klogtool(*words).status == 1  # records are lost, as it says
    second = stopped(broker, live(broker, expected))
    return Story(first, second, read_committed, in_use, journal_made, undone)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_three_lives(version: str) -> None:
    """One test, since each story takes long, and tests are shared out among processes."""
    with a_scratch_folder() as scratch, a_broker(version, scratch / "broker") as broker:
        story = tell(broker, scratch)
    check_recovery_leaves_all_as_klogtool_made_it(story.after_kill)
    check_nothing_is_recovered_behind_a_clean_marker(story.marked_clean)
    found, wanted = story.read_committed
    assert found == wanted, "aborted transactions are served, or others are not"
    before, after = story.undone
    assert {name for name in {*before, *after} if before.get(name) != after.get(name)} == set(), "undo"
    assert ([done.status for done in story.in_use], story.journal_made) == ([3, 3], False), "a log dir in use"


def check_recovery_leaves_all_as_klogtool_made_it(life: Life) -> None:
    """It read everything, from offset 0 on, and cut nothing."""
    said = [line for line in life.said.splitlines() if "Recovering unflushed segment 0. " in line]
    assert {line.partition("recovered for ")[2].split(".")[0] for line in said} >= {f"{t}-0" for t in life.expected}
    check_files_and_records(life)


def check_nothing_is_recovered_behind_a_clean_marker(life: Life) -> None:
    said = [line for line in life.said.splitlines() if "__cluster_metadata" not in line]  # which always is
    assert [line for line in said if "since clean shutdown file was found" in line]
    assert not [line for line in said if "Recovering unflushed segment" in line]
    check_files_and_records(life)


def check_files_and_records(life: Life) -> None:
    assert not [line for line in life.said.splitlines() if any(words in line for words in CUTS)]
    for topic, expected in life.expected.items():
        assert life.served[topic] == expected, topic
        assert life.before[topic], topic
        assert life.after[topic] == life.before[topic], topic
