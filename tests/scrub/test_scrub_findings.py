"""What scrub finds is what verify finds in closed segments, word for word, and nothing where nothing is wrong."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Callable

import pytest
from damage import flip_bit
from running import FIXTURES, run_here
from scrub.scrubbed import EVERYTHING, closed_logs, make_log_dir, rot, scrub
from verifying import run_verify
from wounded import CASES, OF_SCRUB

from klogtool.log.segment import Segment

Path = pathlib.Path
LOG_DIRS = sorted({path.parent for path in FIXTURES.rglob("meta.properties")})
# These need what is in other segments, or in the producers' state.
NOT_OF_ONE_SEGMENT = {"segment-overlap", "segment-gap", "txnindex-missing", "txnindex-size", "txnindex-entry"}


@pytest.mark.parametrize("log_dir", LOG_DIRS, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_what_verify_finds_in_closed_segments(log_dir: Path, tmp_path: Path) -> None:
    assert_as_verify(log_dir, tmp_path / "state", now_ms=1_893_456_000_000)


@pytest.mark.parametrize("finding_id", sorted(CASES.keys() - {"meta-properties-conflict"}))
def test_what_verify_finds_of_each_wound(finding_id: str, copy_of: Callable[[str], Path], tmp_path: Path) -> None:
    case = CASES[finding_id]
    log_dir = copy_of(case.fixture)
    for path in log_dir.rglob("*.checkpoint"):
        path.chmod(0o644)
    case.wound(log_dir)
    assert_as_verify(log_dir, tmp_path / "state", case.now_ms)


def assert_as_verify(log_dir: Path, state: Path, now_ms: int) -> None:
    done = scrub(state, log_dir, *EVERYTHING, now_ms=now_ms)
    found = {(row["id"], row["path"], row.get("start"), row["detail"]) for row in done.findings}
    findings = [one for one in run_verify(log_dir, now_ms=now_ms)[0] if one.severity.value != "info"]
    of_verify = {(one.id.value, one.path, one.start, one.detail) for one in findings}
    stems = {log.with_suffix("") for log in closed_logs(log_dir)}
    in_closed = {row for row in of_verify if Path(row[1]).with_suffix("") in stems}
    assert found <= of_verify
    assert {row[0] for row in in_closed - found} <= NOT_OF_ONE_SEGMENT
    assert done.status == int(any(row["severity"] == "error" for row in done.findings))


def test_the_end_of_a_log_and_what_is_not_flushed_are_left_alone(tmp_path: Path) -> None:
    log_dir = make_log_dir(tmp_path / "logs", partitions=1)
    active = max((log_dir / "orders-0").glob("*.log"))
    flip_bit(active, 200)
    logs = closed_logs(log_dir)
    for point, flushed in ((int(logs[2].stem), 2), (int(logs[2].stem) - 1, 1), (0, 0), (2**62, len(logs))):
        done = scrub(tmp_path / f"state-{point}", log_dir, "--recovery-point", str(point))
        assert (done.status, done.findings) == (0, [])
        assert (done.summary["checked"], done.summary["unflushed"]) == (flushed, len(logs) - flushed)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_bytes_of_an_index_that_changed(suffix: str, tmp_path: Path) -> None:
    """A position one byte further is no finding of verify's, and yet the disk gave another byte."""
    log_dir, state = make_log_dir(tmp_path / "logs", partitions=1), tmp_path / "state"
    assert scrub(state, log_dir).status == 0
    index = closed_logs(log_dir)[1].with_suffix(suffix)
    for bit in range(8):
        rot(index, 3, bit)
        done = scrub(state, log_dir, "--every", "0")
        assert done.status == 1 or done.summary["warnings"]
        assert {Path(row["path"]) for row in done.findings} == {index}
        rot(index, 3, bit)
    assert scrub(state, log_dir, "--every", "0").status == 0


def leader_epoch_of_a_batch(log: Path) -> int:
    batches = list(Segment(str(log)).batches())
    return batches[-1].position + 12


def test_changed_bytes_that_no_checksum_covers(tmp_path: Path) -> None:
    """The last batch of a log gets a higher leader epoch: no rule is broken, so only the sums know."""
    log_dir, state = make_log_dir(tmp_path / "logs", partitions=1), tmp_path / "state"
    assert scrub(state, log_dir).status == 0
    log = closed_logs(log_dir)[-1]
    rot(log, leader_epoch_of_a_batch(log), 0)
    for days in (31, 62):  # as long as nobody writes the file anew
        done = scrub(state, log_dir, days=days)
        assert (done.status, done.ids) == (1, ["bytes-changed"])
        (row,) = done.findings
        assert (row["path"], row["start"], row["end"]) == (str(log), 0, log.stat().st_size)
        assert row["cure"].startswith(f"klogtool hash {shlex.quote(str(log.parent))} --from {int(log.stem)} --to ")
    log.touch()
    assert scrub(state, log_dir, days=93).status == 0


def test_a_cleaned_log_may_get_other_bytes(tmp_path: Path) -> None:
    """The cleaner's file has the time of the old one, may have its size, and now and then its inode."""
    log_dir, state = make_log_dir(tmp_path / "logs", partitions=1), tmp_path / "state"
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 100\n")
    assert scrub(state, log_dir).status == 0
    log = closed_logs(log_dir)[-1]
    rot(log, leader_epoch_of_a_batch(log), 0)  # which changes the ctime
    assert scrub(state, log_dir, days=31).status == 0


def test_the_example_of_the_page_is_read_as_text(tmp_path: Path) -> None:
    log_dir = make_log_dir(tmp_path / "lo gs", partitions=1)
    log = closed_logs(log_dir)[0]
    flip_bit(log, 100)
    done = run_here(["scrub", str(log_dir), "--now", "1795000000000"], tmp_path)
    text = done.out.decode()
    assert (done.status, done.err) == (1, "")
    assert f"klogtool salvage '{log.parent}' --output DIR" in text
    assert "1 error, 0 warnings." in text
    again = run_here(["scrub", str(log_dir), "--now", "1795000000000"], tmp_path)
    assert (again.status, again.out.decode().splitlines()[0]) == (
        1,
        f"known    {log}: batch-crc 1 (found earlier; klogtool verify shows it)",
    )


def test_ids_of_scrub_alone() -> None:
    assert {"bytes-changed"} == OF_SCRUB
