"""Every command on folders without segments, and on names that no broker gives: a status of the contract, no traceback.

The commands run in this process, so an exception that nobody expects fails the test where it arises.
"""

from __future__ import annotations

import pathlib
import shutil

import pytest
from running import FIXTURES, Done, run_here

from klogtool.format.names import FileKind, parse_file_name

METADATA = "version: 0\ntopic_id: Y7mKTaMaEn1L3m5DAz9mug\n"
NOW = ["--now", "1700000300000"]
TOPICS = (
    "t-0",
    "__consumer_offsets-3",
    "__transaction_state-2",
    "__share_group_state-0",
    "__remote_log_metadata-1",
    "__cluster_metadata-0",
)
ON_LOG_DIRS = (
    "doctor",
    "doctor --quick",
    "verify",
    "scrub --recovery-point 9223372036854775807",
    "recover",
    "recover --mark-clean",
    "dump-log",
    "dump-log --format json",
    "offsets",
    "offsets --format json",
    "offsets --format csv",
    "txns",
    "txns --audit",
    "hash",
    "free",
    "retain",
    "compact",
    "compact --why",
    "diff LOGDIR",
    "image --output IMAGE",
    "fleet collect",
)
ON_PARTITIONS = (
    "verify --deep",
    "recover",
    "read --offset 0",
    "read --offset 0 --records",
    "lookup --offset 0 --timestamp earliest --timestamp max --timestamp 5 --leader-epoch 0 --explain",
    "txns",
    "offsets",
    "hash",
    "salvage --output SALVAGED",
    "transplant --check --topic a --partition 0",
    "roll --force",
    "truncate --to 0",
    "truncate --start-at 9",
    "retain",
    "delete-records --before 0",
    "compact --force --config cleanup.policy=compact",
    "compact --why",
    "rebuild-index",
    "rebuild-index --segment 0",
    "dump-log --format json",
    "image --output IMAGE",
    "drop-producer --producer-id 5",
)
NAMES = (
    "-0000000000000000001.log",
    "-0000000000000000001.index",
    "-0000000000000000001.timeindex",
    "-0000000000000000001.txnindex",
    "-0000000000000000001.snapshot",
    "-9223372036854775808.log",
    "+0000000000000000001.log",
    "09223372036854775807.log",
    "9223372036854775807.log",
    "99999999999999999999.log",
    "99999999999999999999.log.bak",
    ".99999999999999999999.log.x1Y2z3",
    "99999999999999999999.LOG",
    "99999999999999999999.log.gz",
    "99999999999999999999.log.deleted",
    "000000000000000000000000000000.log",
    ".log",
    "-.log",
    "x.log",
    "1e3.log",
    "-0000000000000000001.log.swap",
    "-0000000000000000001.log.cleaned",
    "-0000000000000000001.log.deleted",
    "-0000000000000000001-0000000001.checkpoint",
    "00000000000000000000--000000001.checkpoint",
    "\udcff\udcfe.log",
    "00000000000000000005.\udcff.log",
    "\udcff.index",
    "\udcff.snapshot",
    "00000000000000000005.\udcff.snapshot",
    "\udcff.log.swap",
    "\udcff.deleted",
    "\udcff.checkpoint",
    "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠.log",
)


def run(command: str, path: pathlib.Path, log_dir: pathlib.Path) -> Done:
    """Run a command on a path, and nowhere else."""
    name, *options = command.split()
    places = {"LOGDIR": log_dir, "IMAGE": log_dir.parent / "image", "SALVAGED": log_dir.parent / "salvaged"}
    for place in (places["IMAGE"], places["SALVAGED"], log_dir.parent / "salvaged.rejected"):
        shutil.rmtree(place, ignore_errors=True)
    words = [str(places.get(word, word)) for word in options]
    if name == "fleet":
        return run_here([name, words[0], str(path)], log_dir.parent)
    clock = [] if name in ("hash", "diff", "dump-log", "image", "offsets") else NOW
    return run_here([name, str(path), *words, *clock], log_dir.parent)


def assert_calm(done: Done, command: str) -> None:
    """Check that the status is one of the contract."""
    assert done.status in (0, 1, 2, 3, 4), command
    assert "Traceback" not in done.err


def log_dir_of(tmp_path: pathlib.Path) -> pathlib.Path:
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    shutil.copy(FIXTURES / "leader-epochs" / "logdir" / "meta.properties", log_dir)
    return log_dir


@pytest.mark.parametrize("topics", [*((topic,) for topic in TOPICS), TOPICS], ids=lambda topics: "+".join(topics))
@pytest.mark.parametrize("content", ["nothing", "partition.metadata", "indexes"])
def test_folders_without_a_segment(tmp_path: pathlib.Path, topics: tuple[str, ...], content: str) -> None:
    log_dir = log_dir_of(tmp_path)
    for topic in topics:
        (log_dir / topic).mkdir()
        if content != "nothing":
            (log_dir / topic / "partition.metadata").write_text(METADATA)
        if content == "indexes":
            for suffix in ("index", "timeindex", "snapshot"):
                (log_dir / topic / f"{7:020d}.{suffix}").touch()
    for command in ON_LOG_DIRS:
        assert_calm(run(command, log_dir, log_dir), command)
    for command in ON_PARTITIONS:
        assert_calm(run(command, log_dir / topics[0], log_dir), command)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("content", ["empty", "batches"])
def test_names_that_no_broker_gives(tmp_path: pathlib.Path, name: str, content: str) -> None:
    log_dir = log_dir_of(tmp_path)
    for topic, source in (("t-0", "leader-epochs/logdir/t-0"), ("__consumer_offsets-0", "groups/logdir")):
        found = FIXTURES / source
        found = found if topic == "t-0" else next(found.glob("__consumer_offsets-*"))
        shutil.copytree(found, log_dir / topic)
        data = next(found.glob("*.log")).read_bytes() if content == "batches" else b""
        (log_dir / topic / name).write_bytes(data)
    for command in ON_LOG_DIRS:
        assert_calm(run(command, log_dir, log_dir), command)
    for command in ON_PARTITIONS:
        assert_calm(run(command, log_dir / "t-0", log_dir), command)
    if parse_file_name(name).kind is FileKind.FOREIGN:
        assert b"unreadable" not in run("verify --format json", log_dir, log_dir).out
