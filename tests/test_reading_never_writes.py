"""Reading leaves bytes, sizes, times, modes and the list of files as they were; so it works where writing is forbidden.

Kafka's own dump tool cuts an index of odd length, and creates one that is missing. Every run of klogtool by way of the
`klogtool` fixture is watched as well (conftest.py); here are the folders, and the forms of reading, that tempt most.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.util import find_spec

import pytest
from damage import append_bytes
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_apart, run_here, without_power_over_files

import klogtool

WAYS = {
    "text": [],
    "deep": ["--deep-iteration"],
    "print": ["--print-data-log"],
    "sanity": ["--index-sanity-check"],
    "verify": ["--verify-index-only"],
    "resync": ["--resync"],
    "json": ["--format", "json"],
    "csv": ["--format", "csv"],
    "decoded": ["--value-format", "json", "--key-decoder", "true"],
}
EXPORTS = ("arrow", "parquet")


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir with all that a reader could be tempted to mend: odd, missing, untrimmed and empty side files."""
    log_dir = tmp_path / "logdir"
    shutil.copytree(FIXTURES / "killed-mid-append" / "logdir", log_dir)
    torn, flipped = log_dir / "torn-tail-0", log_dir / "flip-bit-0"
    append_bytes(torn / "00000000000000000000.index", b"\1\2\3")
    append_bytes(torn / "00000000000000000018.timeindex", b"\1\2\3")
    append_bytes(torn / "00000000000000000051.txnindex", b"\1\2\3")
    (flipped / "00000000000000000000.index").unlink()
    (flipped / "00000000000000000023.timeindex").unlink()
    (flipped / "leader-epoch-checkpoint").unlink()
    (flipped / "00000000000000000045.index").write_bytes(b"")
    return log_dir


@pytest.mark.parametrize("way", WAYS)
def test_a_dump_of_a_log_dir(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], log_dir: pathlib.Path, way: str
) -> None:
    with unchanged(log_dir):
        done = run_here(["dump-log", str(log_dir), *WAYS[way]], ROOT)
    assert done.out
    assert "Traceback" not in done.err


@pytest.mark.parametrize("way", WAYS)
def test_a_dump_of_each_file_in_kafkas_way(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], log_dir: pathlib.Path, way: str
) -> None:
    with unchanged(log_dir):
        for file in sorted(log_dir.rglob("*")):
            run_here(["dump-log", "--files", str(file), *WAYS[way]], ROOT)


@pytest.mark.parametrize("form", EXPORTS)
def test_an_export_writes_its_output_and_nothing_else(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]],
    log_dir: pathlib.Path,
    tmp_path: pathlib.Path,
    form: str,
) -> None:
    output = tmp_path / f"out.{form}"
    with unchanged(log_dir):
        run_here(["dump-log", str(log_dir), "--format", form, "--output", str(output)], ROOT)
    assert output.stat().st_size > 0
    assert {path.name for path in tmp_path.iterdir()} == {"logdir", output.name}


VERIFY_WAYS = {"plain": [], "deep": ["--deep"], "json": ["--format", "json"], "threads": ["--jobs", "3"]}
VERIFY_WAYS |= {form: ["--format", form, "--recursive", "--notes"] for form in ("junit", "sarif", "github", "gitlab")}


def test_scrub(unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], log_dir: pathlib.Path) -> None:
    """Its state is the only file that it writes, outside of the log dir."""
    with unchanged(log_dir):
        for _ in range(2):
            done = run_here(["scrub", str(log_dir), "--recovery-point", "1000", "--every", "0"], ROOT)
            assert "Traceback" not in done.err
    assert {path.name for path in log_dir.parent.iterdir()} == {"logdir", "logdir.klogtool-scrub"}


@pytest.mark.slow
@pytest.mark.parametrize("way", VERIFY_WAYS)
def test_verify(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], log_dir: pathlib.Path, way: str
) -> None:
    with unchanged(log_dir):
        done = run_here(["verify", str(log_dir), *VERIFY_WAYS[way]], ROOT)
        for file in sorted(log_dir.rglob("*")):
            run_here(["verify", str(file), *VERIFY_WAYS[way]], ROOT)
    assert done.status == 1
    assert "Traceback" not in done.err


ASKED = {
    "lookup": ["lookup", "--offset", "5", "--timestamp", "max", "--leader-epoch", "0", "--explain"],
    "read": ["read", "--offset", "5", "--isolation", "read_committed", "--records"],
    "raw": ["read", "--offset", "5", "--raw", "-", "--framing", "message-set"],
    "json": ["read", "--offset", "5", "--format", "json", "--last-stop", "clean"],
    "txns": ["txns"],
    "audit": ["txns", "--audit"],
    "hash": ["hash"],
    "diff": ["diff", "--deep", str(FIXTURES / "every-codec/logdir/append-4")],
}


@pytest.mark.parametrize("way", ASKED)
def test_lookups_and_fetches(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], log_dir: pathlib.Path, way: str
) -> None:
    partitions = [path for path in sorted(log_dir.iterdir()) if path.is_dir()]
    with unchanged(log_dir):
        done = [run_here([*ASKED[way], str(path)], ROOT) for path in partitions]
    assert len(done) == 6
    assert all(one.out and one.status in (0, 1) and "Traceback" not in one.err for one in done)


ASKED_OF_LOG_DIRS = {
    "doctor": ["doctor"],
    "diff": ["diff", "--deep", str(FIXTURES / "killed-mid-append/logdir")],
    "hash": ["hash"],
    "txns": ["txns", "--audit"],
    "free": ["free", "--bytes", "1"],
    "collect": ["fleet", "collect"],
    "restored": ["fleet", "check", "--restored"],
    **({"export": ["export", "--output", "OUT"]} if find_spec("pyarrow") else {}),
}


@pytest.mark.parametrize("way", ASKED_OF_LOG_DIRS)
def test_questions_about_a_log_dir(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]],
    log_dir: pathlib.Path,
    way: str,
    tmp_path: pathlib.Path,
) -> None:
    words = [str(tmp_path / "out") if word == "OUT" else word for word in ASKED_OF_LOG_DIRS[way]]
    with unchanged(log_dir):
        done = run_here([*words, str(log_dir)], ROOT)
    assert done.out
    assert done.status in (0, 1)
    assert "Traceback" not in done.err


@pytest.mark.parametrize("way", ASKED)
def test_lookups_and_fetches_in_a_read_only_folder(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], read_only_folder: pathlib.Path, way: str
) -> None:
    words = [*ASKED[way], "--now=0", str(read_only_folder / "torn-tail-0")]
    open_to_all = run_here(words, ROOT)
    with unchanged(read_only_folder):
        done = run_apart(*words, before=without_power_over_files)
    assert (done.status, done.out) == (open_to_all.status, open_to_all.out)


def test_verify_in_a_read_only_folder(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], read_only_folder: pathlib.Path
) -> None:
    words = ["verify", "--now=0", "--format", "json", str(read_only_folder)]
    open_to_all = run_here(words, ROOT)
    with unchanged(read_only_folder):
        done = run_apart(*words, before=without_power_over_files)
    assert done.status == open_to_all.status
    assert done.out.splitlines()[:-1] == open_to_all.out.splitlines()[:-1]  # but for the time that it took


def records_or_damage(segment: klogtool.Segment) -> int:
    """How many records can be read before the first damage."""
    count = 0
    with contextlib.suppress(klogtool.KlogError):
        for batch in segment.batches():
            count += sum(1 for _ in batch.records())
    return count


def test_the_api(unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], log_dir: pathlib.Path) -> None:
    with unchanged(log_dir):
        partitions = list(klogtool.open(log_dir).partitions)
        counts = [records_or_damage(segment) for partition in partitions for segment in partition.segments]
        assert any(partition.verify() for partition in partitions)
    assert len(partitions) == 6
    assert sum(counts) > 300


# ---------------------------------------------------------------- where nothing may be written


@pytest.fixture
def read_only_folder(log_dir: pathlib.Path) -> Iterator[pathlib.Path]:
    """The log dir without any permission to write (which binds root only without its power over files)."""
    everything = [log_dir, *log_dir.rglob("*")]
    for path in everything:
        path.chmod(path.stat().st_mode & ~0o222)
    yield log_dir
    for path in everything:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


@pytest.mark.parametrize("way", WAYS)
def test_a_read_only_folder_reads_as_well(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], read_only_folder: pathlib.Path, way: str
) -> None:
    open_to_all = run_here(["dump-log", str(read_only_folder), *WAYS[way]], ROOT)
    with unchanged(read_only_folder):
        done = run_apart("dump-log", read_only_folder, *WAYS[way], before=without_power_over_files)
    assert (done.status, done.out) == (open_to_all.status, open_to_all.out)


def on_read_only_mount(folder: pathlib.Path, command: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a mount namespace of its own, where `folder` is mounted read-only."""
    script = 'mount --bind -o ro "$0" "$0" && exec "$@"'
    as_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    wrapped = ["unshare", "--mount", *as_user, "sh", "-c", script, str(folder), *command]
    return subprocess.run(wrapped, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("way", ["text", "print", "sanity", "json"])
def test_a_read_only_mount_reads_as_well(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], log_dir: pathlib.Path, way: str
) -> None:
    if not shutil.which("unshare") or on_read_only_mount(log_dir, ["true"]).returncode:
        pytest.skip("read-only mounts are not permitted here")
    assert on_read_only_mount(log_dir, ["touch", str(log_dir / "new")]).returncode != 0
    on_disk: Done = run_here(["dump-log", str(log_dir), *WAYS[way]], ROOT)
    with unchanged(log_dir):
        done = on_read_only_mount(log_dir, [*KLOGTOOL, "dump-log", str(log_dir), *WAYS[way]])
    assert (done.returncode, done.stdout) == (on_disk.status, on_disk.out)
