"""What scrub remembers, whatever happens to the log dir, to the run, and to the file in which it remembers."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import random
import shutil
import subprocess
import time
from collections import Counter
from typing import Any

import pytest
from damage import flip_bit
from running import KLOGTOOL, run_apart, run_here, without_power_over_files
from scrub.scrubbed import NOW_MS, closed_logs, make_log_dir, scrub

from klogtool.kernels import crc32c
from klogtool.log.file import LogFile
from klogtool.scrub import segment_check

Path = pathlib.Path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "logs")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the logs that scrub reads, in order."""
    paths, really = list[str](), segment_check.SummedFile.__init__

    def note(file: Any, path: Any) -> None:
        really(file, path)
        paths.extend([path] if path.endswith(".log") else [])

    monkeypatch.setattr(segment_check.SummedFile, "__init__", note)
    return paths


def test_each_segment_is_read_once_in_the_period_the_oldest_first(
    log_dir: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = closed_logs(log_dir)
    for n, log in enumerate(random.Random(1).sample(logs, len(logs))):
        os.utime(log, ns=(n, (NOW_MS - 1000 + n) * 1_000_000))
    by_age = [str(log) for log in sorted(logs, key=lambda log: log.stat().st_mtime_ns)]
    paths = opened(monkeypatch)
    for days, read in ((0, by_age), (0, []), (29, []), (30, by_age), (31, []), (60, by_age)):
        paths.clear()
        done = scrub(state, log_dir, days=days)
        assert (Counter(paths), done.summary["checked"]) == (Counter(read), len(read))
        if days == 0:
            assert paths == read
    assert scrub(state, log_dir, "--every", "1h", days=60.03).summary["checked"] == 0
    assert scrub(state, log_dir, "--every", "1h", days=60.05).summary["checked"] == len(logs)


def test_short_runs_come_round(log_dir: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run reads one segment, however short it is, and the next run goes on."""
    paths, logs = opened(monkeypatch), closed_logs(log_dir)
    for n in range(2 * len(logs)):
        done = scrub(state, log_dir, "--for", "0", days=n)
        assert (done.summary["checked"], done.summary["complete"]) == (int(n < len(logs)), n >= len(logs) - 1)
    assert sorted(paths) == sorted(map(str, logs))


@pytest.mark.parametrize(
    ("window", "hours"),
    [("02:00-05:00", {2, 3, 4}), ("23:00-01:00", {23, 0}), ("7:30-7:30", {1, 2, 4, 5, 22, 23, 0})],
)
def test_a_window(log_dir: Path, tmp_path: Path, window: str, hours: set[int]) -> None:
    for hour in (1, 2, 4, 5, 22, 23, 0):
        noon = time.mktime((2026, 11, 27, hour, 59, 59, 0, 0, -1))
        done = scrub(tmp_path / f"state-{hour}", log_dir, "--window", window, now_ms=int(noon * 1000))
        assert bool(done.summary["checked"]) == (hour in hours)
        assert ("not the time" in done.err) == (hour not in hours)


def test_what_moves_or_goes_away(log_dir: Path, state: Path, tmp_path: Path) -> None:
    logs = closed_logs(log_dir)
    assert scrub(state, log_dir).summary["checked"] == len(logs)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(log_dir / "meta.properties", other)
    shutil.move(log_dir / "orders-1", other / "orders-1")
    for path in (log_dir, other):
        point = path / "recovery-point-offset-checkpoint"
        point.write_text("0\n2\norders 0 1000000\norders 1 1000000\n")
    assert scrub(state, log_dir, other).summary["checked"] == 0
    shutil.move(log_dir, tmp_path / "moved")
    assert scrub(state, tmp_path / "moved", other).summary["checked"] == 0
    first, second, third, *_ = closed_logs(tmp_path / "moved")
    first.unlink()  # by retention
    shutil.copy2(second, tmp_path / "cleaned")
    (tmp_path / "cleaned").replace(second)  # another file with the same time and size
    third.touch()
    done = scrub(state, tmp_path / "moved", other)
    assert (done.status, done.summary["checked"], done.summary["segments"]) == (0, 2, len(logs) - 1)


def test_both_of_two_equal_copies_are_read(log_dir: Path, state: Path, tmp_path: Path) -> None:
    shutil.copytree(log_dir, tmp_path / "other")
    done = scrub(state, log_dir, tmp_path / "other", log_dir, f"{log_dir}/")
    assert done.summary["checked"] == 2 * len(closed_logs(log_dir))


def test_a_fault_of_one_read_is_no_finding(log_dir: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really, faults = LogFile.read_into, iter([True])

    def read_wrongly(file: LogFile, buffer: Any, position: int, size: int) -> memoryview:
        view = really(file, buffer, position, size)
        if file.path.endswith(".log") and len(view) > 500 and next(faults, False):
            view[400] ^= 1
        return view

    monkeypatch.setattr(LogFile, "read_into", read_wrongly)
    done = scrub(state, log_dir)
    assert (done.status, done.findings, done.summary["fleeting"]) == (0, [], 1)
    assert scrub(state, log_dir, "--every", "0").status == 0  # the sums are of the second read


@pytest.mark.parametrize("what", ["deleted", "replaced", "cut", "changed each time"])
def test_a_segment_that_changes_while_it_is_read(
    what: str, log_dir: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = closed_logs(log_dir)[1]
    flip_bit(victim, 100)  # so that there would be something to say
    really = segment_check._read

    def read_meanwhile(segment: Any, *rest: Any) -> Any:
        reading = really(segment, *rest)
        if segment.segment.path == str(victim):
            match what:
                case "deleted":
                    victim.unlink(missing_ok=True)
                case "replaced" if victim.stat().st_ino == segment.id.ino:
                    shutil.copy2(victim, state)
                    state.replace(victim)
                case "cut":
                    os.truncate(victim, 100)
                case "changed each time":
                    victim.with_suffix(".index").touch()
        return reading

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(segment_check, "_read", read_meanwhile)
        done = scrub(state.with_name("other"), log_dir)
    is_gone = what != "changed each time"
    assert (done.status, done.findings) == (0 if is_gone else 4, [])
    assert (done.summary["gone"], done.summary["changed"]) == (int(is_gone), int(not is_gone))


def line_of(data: bytes) -> bytes:
    return b"%08x %s\n" % (crc32c(data), data)


HOSTILE = {
    "a flipped bit": lambda line: line[:30] + bytes([line[30] ^ 1]) + line[31:],
    "zeros": lambda line: bytes(len(line) - 1) + b"\n",
    "a short line": lambda line: line[:7] + b"\n",
    "an empty line": lambda line: b"\n",
    "no JSON": lambda line: line_of(b"\xff{"),
    "deep JSON": lambda line: line_of(b"[" * 100_000),
    "another type": lambda line: line_of(b"[1]"),
    "of the future": lambda line: changed(line, checked_ms=2**62),
    "a time that is none": lambda line: changed(line, checked_ms=10**400),
    "an unknown finding": lambda line: changed(line, findings={"no-such-finding": 1}),
    "less than no findings": lambda line: changed(line, findings={"batch-crc": -1}),
    "sums of another size": lambda line: with_sums(line, "00000000" * 9),
    "sums that are no numbers": lambda line: with_sums(line, "zzzzzzzz"),
    "sums that are missing": lambda line: with_sums(line, ""),
}


def changed(line: bytes, **values: object) -> bytes:
    return line_of(json.dumps({**json.loads(line[9:]), **values}).encode())


def with_sums(line: bytes, sums: str) -> bytes:
    files = json.loads(line[9:])["files"]
    return changed(line, files={name: [stat, sums, read_ms] for name, (stat, _, read_ms) in files.items()})


@pytest.mark.parametrize("how", HOSTILE)
def test_a_damaged_line_is_told_and_not_believed(log_dir: Path, state: Path, how: str) -> None:
    scrub(state, log_dir)
    first, *lines = state.read_bytes().splitlines(keepends=True)
    state.write_bytes(first + b"".join(lines[:2]) + HOSTILE[how](lines[2]) + b"".join(lines[3:]))
    done = scrub(state, log_dir)
    assert (done.status, done.findings, done.summary["damaged"], done.summary["checked"]) == (0, [], 1, 1)
    assert (scrub(state, log_dir).summary["damaged"], len(state.read_bytes().splitlines())) == (0, len(lines) + 1)


@pytest.mark.slow
def test_a_state_that_a_kill_cut_is_none_the_worse(log_dir: Path, state: Path) -> None:
    scrub(state, log_dir)
    data, count = state.read_bytes(), len(closed_logs(log_dir))
    for size in range(0, len(data), 311):
        state.write_bytes(data[:size])
        (state.parent / "state.part").write_bytes(b"left by a run that was killed")
        done = scrub(state, log_dir)
        assert done.summary["checked"] == count - max(0, data[:size].count(b"\n") - 1)
        assert (done.status, done.summary["damaged"]) == (0, 0)
        assert sorted(os.listdir(state.parent)) == ["logs", "spec.yaml", "state"]


def test_what_is_no_state_is_not_touched(log_dir: Path, state: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "text")
    os.mkfifo(tmp_path / "fifo")
    places = {"text": 3, "folder": 3, "link": 3, "fifo": 3, "logs/state": 3, "logs/orders-0/state": 3}
    for place, status in places.items():
        done = scrub(tmp_path / place, log_dir)
        assert (done.status, done.findings, done.summary) == (status, [], {}), place
        assert place in done.err
    assert (tmp_path / "text").read_bytes() == b"mine"
    assert run_here(["scrub", str(log_dir), "--state", "no/state"], tmp_path).status == 2


def test_two_runs_do_not_use_one_state(log_dir: Path, state: Path) -> None:
    scrub(state, log_dir)
    with open(state, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = scrub(state, log_dir)
    assert (done.status, "in use by another process" in done.err) == (3, True)


def test_a_folder_that_may_not_be_written(log_dir: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    done = run_apart("scrub", log_dir, before=without_power_over_files)
    tmp_path.chmod(0o755)
    assert (done.status, "Traceback" in done.err) == (4, False)
    assert f"{log_dir}.klogtool-scrub: cannot be written: permission denied" in done.err


def test_the_state_is_beside_the_log_dir(log_dir: Path, tmp_path: Path) -> None:
    for words, folder in (([str(log_dir)], tmp_path), ([f"{log_dir}/"], tmp_path), (["."], log_dir)):
        assert run_here(["scrub", *words], folder).status == 0
        assert (tmp_path / "logs.klogtool-scrub").exists()
        (tmp_path / "logs.klogtool-scrub").unlink()


def test_a_path_that_is_no_log_dir_leaves_no_state(log_dir: Path, tmp_path: Path) -> None:
    for path, status in ((tmp_path / "none", 2), (log_dir / "orders-0", 4), (closed_logs(log_dir)[0], 4)):
        assert run_here(["scrub", str(path), "--state", str(tmp_path / "state")], tmp_path).status == status
    assert not (tmp_path / "state").exists()


def test_folders_that_may_not_be_read_are_findings(log_dir: Path, state: Path) -> None:
    log = closed_logs(log_dir)[-1]
    (log_dir / "orders-0").chmod(0), log.chmod(0)
    words = ["scrub", log_dir, "--state", state, "--json"]
    done = run_apart(*words, before=without_power_over_files)
    (log_dir / "orders-0").chmod(0o755)
    rows = [json.loads(line) for line in done.out.splitlines()]
    found = [(row["id"], row["path"]) for row in rows if row["type"] == "finding"]
    assert found == [("unreadable", str(log_dir / "orders-0")), ("unreadable", str(log))]
    assert (done.status, "Traceback" in done.err) == (1, False)
    assert rows[-1]["errors"] == 2


def kill_and_check(log_dir: Path, state: Path, times: int, rng: random.Random) -> None:
    """End runs at random moments; each segment is read once, and one more for each kill at most."""
    count = len(closed_logs(log_dir))
    for _ in range(times):
        state.unlink(missing_ok=True)
        read = 0
        while read < count:
            command = [*KLOGTOOL, "scrub", str(log_dir), "--state", str(state), "--now", str(NOW_MS)]
            before = state.stat().st_size if state.exists() else 0
            process = subprocess.Popen([*command, "--rate", "300kB/s"], stdout=subprocess.DEVNULL)
            while process.poll() is None and (not state.exists() or state.stat().st_size <= before):
                time.sleep(0.002)
            time.sleep(rng.random() * 0.15)
            process.kill()
            process.wait()
            whole = [line for line in state.read_bytes().splitlines(keepends=True)[1:] if line.endswith(b"\n")]
            ids = [json.dumps(json.loads(line[9:])["id"]) for line in whole]
            assert len(ids) == len(set(ids)), "a segment was read twice"
            assert len(ids) >= read, "what was read was forgotten"
            read = len(ids)
        assert scrub(state, log_dir).summary["checked"] == 0


@pytest.mark.slow
def test_kills(log_dir: Path, state: Path) -> None:
    kill_and_check(log_dir, state, 3, random.Random(os.getpid()))


@pytest.mark.nightly
def test_two_hundred_kills(log_dir: Path, state: Path) -> None:
    kill_and_check(log_dir, state, 40, random.Random(os.getpid()))
