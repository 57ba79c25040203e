"""Whether a broker gets as far as its logs: what `recover` says first, over one log dir and over several.

The rows are those of a real broker's starts: it ends (REFUSES), or gives the log dir up (OFFLINE), or serves nothing.
"""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from deciding import decided
from running import FIXTURES, Done, run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import KlogError

NOW_MS = 1_700_000_300_000
REFUSES, OFFLINE, UNSERVED = "refuses", "offline", "unserved"
WORDS = {REFUSES: "REFUSES to start", OFFLINE: "OFFLINE", UNSERVED: "SERVES NO PARTITION"}
META = "meta.properties"
CHECKPOINTS = {
    kind: f"{kind}-checkpoint"
    for kind in ("recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset")
}

Wound = Callable[[pathlib.Path], object]


@pytest.fixture
def disks(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two log dirs of one broker: d1, d2."""
    return pathlib.Path(shutil.copytree(FIXTURES / "two-disks" / "logdir", tmp_path / "disks"))


def meta(**values: str | None) -> Wound:
    """meta.properties with other values; None: without that line."""

    def wound(log_dir: pathlib.Path) -> None:
        path = log_dir / META
        lines = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
        for name, value in values.items():
            lines[name.replace("_", ".")] = value or ""
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items() if value))

    return wound


def put(name: str, data: bytes | str) -> Wound:
    return lambda log_dir: (log_dir / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def remove(name: str) -> Wound:
    return lambda log_dir: (log_dir / name).unlink()


def folder(name: str) -> Wound:
    return lambda log_dir: (log_dir / name).mkdir()


def folder_in_place_of(name: str) -> Wound:
    def wound(log_dir: pathlib.Path) -> None:
        (log_dir / name).unlink(missing_ok=True)
        (log_dir / name).mkdir()

    return wound


def copy_partition(to: str) -> Wound:
    return lambda log_dir: shutil.copytree(log_dir / "t-2", log_dir / to)


IO = "KafkaStorageException"
ROWS: Mapping[str, tuple[Wound, str, str]] = {
    # meta.properties
    "missing": (remove(META), REFUSES, "RuntimeException"),
    "node id of another broker": (meta(node_id="77"), REFUSES, "RuntimeException"),
    "cluster id of another cluster": (meta(cluster_id="AAAAAAAAAAAAAAAAAAAAAA"), REFUSES, "RuntimeException"),
    "reserved directory id": (meta(directory_id="AAAAAAAAAAAAAAAAAAAAAA"), REFUSES, "RuntimeException"),
    "directory id that is none": (meta(directory_id="xyz"), OFFLINE, "RuntimeException"),
    "version 7": (meta(version="7"), OFFLINE, "RuntimeException"),
    "version x": (meta(version="x"), OFFLINE, "RuntimeException"),
    "no cluster id in version 1": (meta(cluster_id=None), OFFLINE, "RuntimeException"),
    "no properties": (put(META, b"a=\\u12\n"), OFFLINE, "IllegalArgumentException"),
    "0 bytes": (put(META, b""), REFUSES, "RuntimeException"),
    "version 0 without a cluster id": (
        meta(version="0", broker_id="1", node_id=None, cluster_id=None),
        REFUSES,
        "RuntimeException",
    ),
    "random bytes": (put(META, bytes(range(128, 256))), REFUSES, "RuntimeException"),
    "a folder": (folder_in_place_of(META), OFFLINE, "IOException"),
    # folders
    "no dash": (folder("foo"), REFUSES, "KafkaException"),
    "lost+found": (folder("lost+found"), REFUSES, "KafkaException"),
    "partition that is no number": (folder("t-0.bak"), REFUSES, "KafkaException"),
    "suffix that is none": (folder("x-0-delete"), REFUSES, "KafkaException"),
    "a partition twice in a log dir": (copy_partition("t-02"), REFUSES, "IllegalStateException"),
    "a future one twice": (copy_partition(f"t-1.{'0' * 32}-future"), REFUSES, "IllegalStateException"),
    # checkpoints
    **{f"{kind}: garbage": (put(name, "hello world\n"), OFFLINE, IO) for kind, name in CHECKPOINTS.items()},
    **{f"{kind}: other version": (put(name, "7\n0\n"), OFFLINE, IO) for kind, name in CHECKPOINTS.items()},
    **{f"{kind}: wrong count": (put(name, "0\n5\nt 2 1\n"), OFFLINE, IO) for kind, name in CHECKPOINTS.items()},
    **{f"{kind}: not UTF-8": (put(name, b"0\n1\n\xff 2 1\n"), OFFLINE, IO) for kind, name in CHECKPOINTS.items()},
    "high watermark that is no number": (
        put(CHECKPOINTS["replication-offset"], "0\n1\nt 2 x\n"),
        UNSERVED,
        "NumberFormatException",
    ),
    # files of a partition
    "partition.metadata: hello": (put("t-2/partition.metadata", "hello"), OFFLINE, IO),
    "partition.metadata: zero id": (
        put("t-2/partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
        OFFLINE,
        IO,
    ),
    "partition.metadata: not UTF-8": (put("t-2/partition.metadata", b"\xff\xfe"), OFFLINE, IO),
    "partition.metadata: 0 bytes": (put("t-2/partition.metadata", b""), REFUSES, "NullPointerException"),
    "partition.metadata: one line": (put("t-2/partition.metadata", "version: 0\n"), REFUSES, "NullPointerException"),
    "partition.metadata: an id that is none": (
        put("t-2/partition.metadata", "version: 0\ntopic_id: xyz"),
        REFUSES,
        "IllegalArgumentException",
    ),
    "epochs: hello": (put("t-2/leader-epoch-checkpoint", "hello\n"), OFFLINE, IO),
    "epochs: eight zero bytes": (put("t-2/leader-epoch-checkpoint", bytes(8)), OFFLINE, IO),
    "epochs: negative": (put("t-2/leader-epoch-checkpoint", "0\n1\n-1 0\n"), REFUSES, "IllegalArgumentException"),
    "epochs: no number": (put("t-2/leader-epoch-checkpoint", "0\n1\nx 0\n"), REFUSES, "NumberFormatException"),
}
every_row = pytest.mark.parametrize("row", ROWS)

# At these a broker starts, and serves what there is.
HARMLESS: Mapping[str, Wound] = {
    "directory id missing": meta(directory_id=None),
    "version 0 with both ids": meta(version="0", broker_id="1", node_id="9"),
    "keys that nobody knows": meta(version_="7", node_idd="9", foo="bar"),
    "directory id changed": meta(directory_id="HBkLXiG2TBugyYPqjxOXtQ"),
    "metadata of remote storage": folder("remote-log-index-cache"),
    "a foreign file": put("bar-0", b""),
    **{f"{kind} missing": remove(name) for kind, name in CHECKPOINTS.items()},
    **{f"{kind} of 0 bytes": put(name, b"") for kind, name in CHECKPOINTS.items()},
    "recovery point that is no number": put(CHECKPOINTS["recovery-point-offset"], "0\n1\nt 2 x\n"),
    "log start that is no number": put(CHECKPOINTS["log-start-offset"], "0\n1\nt 2 x\n"),
    "partition.metadata of version 1": lambda log_dir: (log_dir / "t-2/partition.metadata").write_text(
        (log_dir / "t-2/partition.metadata").read_text().replace("version: 0", "version: 1")
    ),
}


def run(disks: pathlib.Path, *words: str) -> Done:
    return run_here(["recover", *words, "--now", str(NOW_MS)], disks)


def rows_of(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.fixture(params=["d1 d2", "d2 d1"])
def both(request: pytest.FixtureRequest) -> list[str]:
    return str(request.param).split()


@every_row
def test_a_broker_that_stops_is_told_first(disks: pathlib.Path, row: str, both: list[str]) -> None:
    wound, outcome, kafka_class = ROWS[row]
    wound(disks / "d2")
    shown, asked = run(disks, *both), run(disks, *both, "--format", "json")
    assert (shown.status, asked.status) == (3, 3), shown
    first, cure, *_ = shown.out.decode().splitlines()
    assert WORDS[outcome] in first
    assert f": {kafka_class}: " in first
    assert cure.startswith("  →  ")
    assert "klogtool: " in shown.err
    head, answer, *_ = rows_of(asked)
    assert head["type"] == "klogtool"
    assert answer["type"] == "answer"
    assert answer["error"]["class"] == kafka_class
    assert answer["error"]["message"]
    assert (answer["outcome"], bool(answer["cure"])) == (outcome, True)


@every_row
def test_it_ends_the_broker_or_leaves_its_other_log_dirs(disks: pathlib.Path, row: str) -> None:
    wound, outcome, _ = ROWS[row]
    wound(disks / "d2")
    plans = [row for row in rows_of(run(disks, "d1", "d2", "--format", "json")) if row["type"] == "plan"]
    assert {pathlib.Path(plan["path"]).parent.name for plan in plans} == (set() if outcome == REFUSES else {"d1"})


# Which broker or cluster a log dir is of, only the other log dir tells.
@pytest.mark.parametrize("row", [row for row in ROWS if not row.endswith(("another broker", "another cluster"))])
def test_python_raises_it(disks: pathlib.Path, row: str) -> None:
    wound, _, kafka_class = ROWS[row]
    wound(disks / "d2")
    with pytest.raises(KlogError) as refused:
        list(decided("recover", str(disks / "d2"), Circumstances(now_ms=NOW_MS).as_arguments()))
    assert refused.value.kafka_class == kafka_class


@pytest.mark.parametrize("row", HARMLESS)
def test_a_broker_that_starts_is_not_held_up(disks: pathlib.Path, row: str) -> None:
    HARMLESS[row](disks / "d2")
    done = run(disks, "d1", "d2")
    assert done.status == 0, done
    assert "REFUSES" not in done.out.decode()


def test_an_undamaged_pair_starts(disks: pathlib.Path, both: list[str]) -> None:
    assert run(disks, *both).status == 0


def test_the_same_directory_id_twice(disks: pathlib.Path, both: list[str]) -> None:
    shutil.copy(disks / "d1" / META, disks / "d2" / META)
    done = run(disks, *both)
    assert done.status == 3
    assert b"REFUSES to start: RuntimeException: Duplicate directory ID" in done.out


def test_a_partition_in_two_log_dirs(disks: pathlib.Path, both: list[str]) -> None:
    shutil.copytree(disks / "d2/t-2" if (disks / "d2/t-2").exists() else disks / "d1/t-2", disks / "both-t-2")
    for name in ("d1", "d2"):
        if not (disks / name / "t-2").exists():
            shutil.copytree(disks / "both-t-2", disks / name / "t-2")
    done = run(disks, *both)
    assert done.status == 3
    first = done.out.decode().splitlines()[0]
    assert "REFUSES to start: IllegalStateException: Duplicate log directories for t-2 are found in both" in first


def test_the_metadata_log_in_two_log_dirs(tmp_path: pathlib.Path) -> None:
    for name in ("d1", "d2"):
        shutil.copytree(FIXTURES / "metadata" / "logdir", tmp_path / name)
    meta(directory_id="HBkLXiG2TBugyYPqjxOXtQ")(tmp_path / "d2")
    for path in (tmp_path / "d2").glob("topic-*"):
        shutil.rmtree(path)
    shutil.rmtree(tmp_path / "d2" / "__transaction_state-0")
    done = run(tmp_path, "d1", "d2")
    assert b"REFUSES to start: KafkaException: Found unexpected metadata location" in done.out


NEWEST, OLDER = f"{178:020d}-{2:010d}.checkpoint", f"{135:020d}-{1:010d}.checkpoint"
HEADER_BYTES, FOOTER_BYTES = 83, 75
BOOTSTRAP = "../bootstrap.checkpoint"


def rewrite(name: str, change: Callable[[bytes], bytes]) -> Wound:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def set_byte(name: str, at: int, value: int) -> Wound:
    return rewrite(name, lambda data: data[:at] + bytes([value]) + data[at + 1 :])


# As a broker 4.3.1 was seen to start, or not, on the log dir of this fixture; None: it starts.
SNAPSHOTS: Mapping[str, tuple[Wound, str | None]] = {
    "older one damaged": (set_byte(OLDER, 200, 0xFF), None),
    "older one of 0 bytes": (put(OLDER, b""), None),
    "first batch damaged": (set_byte(NEWEST, 100, 0xFF), "CorruptRecordException"),
    "last byte damaged": (rewrite(NEWEST, lambda data: data[:-1] + b"\xff"), "CorruptRecordException"),
    "torn in its last batch": (rewrite(NEWEST, lambda data: data[:-5]), None),
    "without its footer": (rewrite(NEWEST, lambda data: data[:-FOOTER_BYTES]), None),
    "nothing but its header": (rewrite(NEWEST, lambda data: data[:HEADER_BYTES]), None),
    "without its header": (rewrite(NEWEST, lambda data: data[HEADER_BYTES:]), "IllegalStateException"),
    "0 bytes": (put(NEWEST, b""), "NoSuchElementException"),
    "40 zeros behind it": (rewrite(NEWEST, lambda data: data + bytes(40)), "CorruptRecordException"),
    "10 zeros behind it": (rewrite(NEWEST, lambda data: data + bytes(10)), None),
    "another base offset": (set_byte(NEWEST, HEADER_BYTES + 7, 0), None),
    "magic 3": (set_byte(NEWEST, HEADER_BYTES + 16, 3), "CorruptRecordException"),
    "magic 1": (set_byte(NEWEST, HEADER_BYTES + 16, 1), "IllegalStateException"),
    "a folder": (folder_in_place_of(NEWEST), "UncheckedIOException"),
    "a name that is no id": (put("foo.checkpoint", b""), "StringIndexOutOfBoundsException"),
    "bootstrap torn": (rewrite(BOOTSTRAP, lambda data: data[:-3]), None),
    "bootstrap damaged": (set_byte(BOOTSTRAP, 50, 0xFF), None),
    "bootstrap of a header": (rewrite(BOOTSTRAP, lambda data: data[:HEADER_BYTES]), "RuntimeException"),
    "bootstrap of 0 bytes": (put(BOOTSTRAP, b""), "RuntimeException"),
}


@pytest.mark.parametrize("row", SNAPSHOTS)
def test_a_snapshot_of_the_metadata_log_stops_a_broker_or_not(tmp_path: pathlib.Path, row: str) -> None:
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "metadata" / "logdir", tmp_path / "logs"))
    wound, kafka_class = SNAPSHOTS[row]
    wound(log_dir / "__cluster_metadata-0")
    answers = [row for row in rows_of(run(tmp_path, "logs", "--format", "json")) if row["type"] == "answer"]
    found = [(answer["error"]["class"], answer["outcome"]) for answer in answers]
    assert found == ([] if kafka_class is None else [(kafka_class, REFUSES)])


def test_the_metadata_log_begins_behind_its_snapshots(tmp_path: pathlib.Path) -> None:
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "metadata" / "logdir", tmp_path / "logs"))
    metadata = log_dir / "__cluster_metadata-0"
    for path in metadata.glob("*.checkpoint"):
        path.unlink()
    assert run(tmp_path, "logs").status != 3
    for path in metadata.glob(f"{0:020d}.*"):
        path.rename(metadata / f"{90:020d}{path.suffix}")
    done = run(tmp_path, "logs")
    assert (done.status, b"IllegalStateException: Inconsistent snapshot state" in done.out) == (3, True)


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "quorum-state", "leader-epoch-checkpoint"])
def test_with_the_metadata_log_dir_a_broker_goes_too(tmp_path: pathlib.Path, name: str) -> None:
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "metadata" / "logdir", tmp_path / "logs"))
    at = log_dir if name.endswith("offset-checkpoint") else log_dir / "__cluster_metadata-0"
    (at / name).write_text("hello\n")
    done = run(tmp_path, "logs")
    assert done.status == 3
    assert b"REFUSES to start" in done.out


def test_several_are_all_told_those_that_end_it_first(disks: pathlib.Path) -> None:
    put(CHECKPOINTS["cleaner-offset"], "hello\n")(disks / "d1")
    folder("foo")(disks / "d2")
    put("t-2/leader-epoch-checkpoint", "hello\n")(disks / "d2")
    answers = [row for row in rows_of(run(disks, "d1", "d2", "--format", "json")) if row["type"] == "answer"]
    assert [answer["outcome"] for answer in answers] == [REFUSES, OFFLINE, OFFLINE]


def test_nothing_is_written_where_a_log_dir_is_given_up(
    disks: pathlib.Path, unchanged: Callable[[pathlib.Path], Any]
) -> None:
    put(CHECKPOINTS["cleaner-offset"], "hello\n")(disks / "d1")
    (disks / "d2" / ".kafka_cleanshutdown").unlink(missing_ok=True)
    with unchanged(disks / "d2"):
        assert run(disks, "d1", "d2", "--apply").status == 3


def test_what_was_given_stands_for_a_checkpoint(disks: pathlib.Path) -> None:
    put(CHECKPOINTS["recovery-point-offset"], "hello\n")(disks / "d2")
    assert run(disks, "d2", "--recovery-point", "0").status == 0


def test_partition_dirs_that_were_copied_to_a_folder_are_no_log_dir_without_identity(disks: pathlib.Path) -> None:
    (disks / "copies").mkdir()
    shutil.copytree(disks / "d2/t-2" if (disks / "d2/t-2").exists() else disks / "d1/t-2", disks / "copies/t-2")
    assert run(disks, "copies").status == 0
    assert run(disks, "d1", "copies").status == 3


def test_an_io_error_in_loading_costs_the_log_dir(disks: pathlib.Path) -> None:
    """A folder in the place of the only `.log`: FileSystemException is an IOException (LogManager.loadLogs)."""
    for path in (disks / "d2/t-2").glob("*.log"):
        path.unlink()
    (disks / "d2/t-2" / f"{0:020d}.log").mkdir()
    (answer,) = (row for row in rows_of(run(disks, "d2", "--format", "json")) if row["type"] == "answer")
    assert (answer["error"]["class"], answer["outcome"]) == ("FileSystemException", OFFLINE)


def test_a_refusal_in_loading_has_its_line_too(disks: pathlib.Path) -> None:
    put("t-2/foo.log", b"")(disks / "d2")
    done = run(disks, "d2")
    assert done.status == 3
    (line,) = (line for line in done.out.decode().splitlines() if "REFUSES" in line)
    assert ": NumberFormatException: " in line
    assert run(disks, "d2/t-2").out.decode().startswith(line)
