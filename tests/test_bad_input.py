"""Whatever the bytes, the name or the permissions: one clear line, the right status, bounded memory, no traceback."""

from __future__ import annotations

import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from bad_input import MEMORY_BYTES
from damage import append_bytes, flip_bit, overwrite, shuffle_blocks, tear_at, zero_from
from raw_batches import raw_batch
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_apart, with_memory, without_power_over_files

from klogtool.format.batch import CODEC_NAMES, RECORD_BATCH_OVERHEAD
from klogtool.format.codecs import compress
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD
from klogtool.format.varint import build_zigzag

SEGMENT = "00000000000000000000.log"
BOMB_BYTES = 3 << 30
WAYS = {
    "text": [],
    "print": ["--print-data-log"],
    "json": ["--format", "json"],
    "resync": ["--resync", "--deep-iteration"],
}
LENGTH_POSITION = 8


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> list[str]:
    return WAYS[request.param]


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    """A segment of a sound partition, to be wounded: 10 batches or so of record batches with headers."""
    partition = tmp_path / "t-0"
    shutil.copytree(FIXTURES / "every-codec/logdir/create-0", partition)
    return partition / SEGMENT


def read(path: pathlib.Path, *options: str) -> Done:
    """klogtool on a path, in a process with little memory."""
    return run_apart("dump-log", path, *options, before=with_memory(MEMORY_BYTES))


def assert_told(done: Done, path: pathlib.Path, status: int, position: int | None = None) -> None:
    """One line about the path (and the position, if asked for) in klogtool's name, and that exit status."""
    assert "Traceback" not in done.err
    told = [line for line in done.err.splitlines() if line.startswith(f"klogtool: {path}: ")]
    assert told, f"nothing about {path}, but: {done.err}"
    if position is not None:
        assert any(f"at byte {position}: " in line for line in told), done.err
    assert done.status == status, done.err


# ---------------------------------------------------------------- damage


def batch_positions(log: pathlib.Path) -> list[int]:
    done = run_apart("dump-log", log)
    return [int(found) for found in re.findall(rb"position: (\d+)", done.out)]


def test_torn_inside_the_last_batch(log: pathlib.Path, way: list[str]) -> None:
    last = batch_positions(log)[-1]
    tear_at(log, last + 70)
    assert_told(read(log, *way), log, 1, last)


def test_torn_inside_a_header(log: pathlib.Path, way: list[str]) -> None:
    last = batch_positions(log)[-1]
    tear_at(log, last + HEADER_SIZE_UP_TO_MAGIC - 1)
    assert_told(read(log, *way), log, 1, last)


def test_zeros_at_the_end(log: pathlib.Path, way: list[str]) -> None:
    third = batch_positions(log)[2]
    zero_from(log, third)
    assert_told(read(log, *way), log, 1, third)


def test_a_flipped_bit(log: pathlib.Path, way: list[str]) -> None:
    third = batch_positions(log)[2]
    flip_bit(log, third + RECORD_BATCH_OVERHEAD + 3)
    assert_told(read(log, *way), log, 1, third)


def test_shuffled_blocks(log: pathlib.Path, way: list[str]) -> None:
    shuffle_blocks(log)
    assert_told(read(log, *way), log, 1)


def test_garbage_behind_the_end(log: pathlib.Path, way: list[str]) -> None:
    size = log.stat().st_size
    append_bytes(log, b"\xff" * 5)
    assert_told(read(log, *way), log, 1, size)


@pytest.mark.parametrize("length", [2**31 - 1, 2**30, 0, 13, -1, -(2**31)])
def test_a_length_that_cannot_be(log: pathlib.Path, way: list[str], length: int) -> None:
    second = batch_positions(log)[1]
    overwrite(log, second + LENGTH_POSITION, length.to_bytes(4, "big", signed=True))
    assert_told(read(log, *way), log, 1, second)


@pytest.mark.parametrize("size", range(LOG_OVERHEAD + 14, RECORD_BATCH_OVERHEAD))
def test_a_batch_shorter_than_its_header(log: pathlib.Path, size: int) -> None:
    overwrite(log, LENGTH_POSITION, (size - LOG_OVERHEAD).to_bytes(4, "big"))
    assert_told(read(log, "--print-data-log"), log, 1)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param(b"\xff" * 1000, 1, id="endless-varints"),
        pytest.param(b"", 1, id="a-record-promised"),
        pytest.param(build_zigzag(6) + bytes(6), 2**31 - 1, id="two-thousand-million-records"),
        pytest.param(build_zigzag(6) + bytes(6), -5, id="a-negative-count"),
        pytest.param(build_zigzag(2**31 - 1) + bytes(6), 1, id="a-huge-record"),
        pytest.param(build_zigzag(-4) + bytes(6), 1, id="a-negative-record"),
        pytest.param(build_zigzag(9) + bytes(3) + build_zigzag(2**30) + bytes(3), 1, id="a-huge-key"),
        pytest.param(build_zigzag(10) + bytes(3) + b"\1\1" + build_zigzag(2**31 - 1), 1, id="many-headers"),
        pytest.param(build_zigzag(6) + bytes(6) + b"more", 1, id="bytes-left-over"),
    ],
)
def test_records_that_do_not_parse(log: pathlib.Path, body: bytes, count: int) -> None:
    log.write_bytes(raw_batch(body, records_count=count))
    for options in (["--print-data-log"], ["--format", "json"]):
        assert_told(read(log, *options), log, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODEC_NAMES[1:])
def test_a_compressed_body_that_is_none(log: pathlib.Path, codec: str) -> None:
    for body in (b"", b"\0", b"\xff" * 100, compress(codec, b"x" * 1000, magic=2)[:-3]):
        log.write_bytes(raw_batch(body, codec=codec))
        for options in (["--print-data-log"], ["--format", "json"]):
            assert_told(read(log, *options), log, 1, 0)


def bomb(codec: str) -> Iterator[bytes]:
    """A few megabytes at most that inflate to BOMB_BYTES of zeros, one record of that size to all appearances."""
    piece = 64 << 20
    head = build_zigzag(BOMB_BYTES) + bytes(3) + b"\1" + build_zigzag(BOMB_BYTES - 100)
    if codec == "gzip":
        import zlib

        deflate = zlib.compressobj(9, wbits=31)
        yield deflate.compress(head)
        for _ in range(BOMB_BYTES // piece):
            yield deflate.compress(bytes(piece))
        yield deflate.flush()
    if codec == "zstd":
        import zstandard

        squeeze = zstandard.ZstdCompressor(level=3).compressobj()
        yield squeeze.compress(head)
        for _ in range(BOMB_BYTES // piece):
            yield squeeze.compress(bytes(piece))
        yield squeeze.flush()


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb(log: pathlib.Path, codec: str) -> None:
    log.write_bytes(raw_batch(b"".join(bomb(codec)), codec=codec))
    assert log.stat().st_size < 8 << 20
    for options in (["--print-data-log"], ["--format", "json"]):
        done = read(log, *options)
        assert_told(done, log, done.status, 0)
        assert done.status in (1, 4)


def test_damage_in_side_files_is_told(log: pathlib.Path) -> None:
    for suffix in (".index", ".timeindex"):
        side = log.with_suffix(suffix)
        append_bytes(side, b"\1\2\3")
        assert_told(read(side, "--index-sanity-check"), side, 1)
    snapshot = next(log.parent.glob("*.snapshot"))
    flip_bit(snapshot, 4)
    assert_told(read(snapshot), snapshot, 1)
    epochs = log.with_name("leader-epoch-checkpoint")
    epochs.write_bytes(b"0\n1\n0 zero\n")
    assert_told(read(epochs), epochs, 1)


# ---------------------------------------------------------------- not a log at all


def test_an_empty_file_is_a_log_without_batches(log: pathlib.Path, way: list[str]) -> None:
    tear_at(log, 0)
    done = read(log, *way)
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(
    "name", ["word.log", "-1.log", "99999999999999999999.log", "50-1.checkpoint", "no-suffix", ".log"]
)
def test_a_name_that_is_none(log: pathlib.Path, way: list[str], name: str) -> None:
    """It is read all the same, or refused by name."""
    path = log.rename(log.with_name(name))
    done = read(path, *way)
    assert "Traceback" not in done.err
    assert (done.status == 0 and name in done.out.decode()) or name in done.err
    assert done.status in (0, 1, 2, 4)


def test_a_name_that_is_not_text(log: pathlib.Path) -> None:
    path = log.rename(log.with_name("new\nline \udcff.log"))
    done = read(path)
    assert "Traceback" not in done.err
    assert done.status in (1, 2, 4)


def test_no_such_path(tmp_path: pathlib.Path, way: list[str]) -> None:
    assert_told(read(tmp_path / SEGMENT, *way), tmp_path / SEGMENT, 2)


def test_no_permission(log: pathlib.Path, way: list[str]) -> None:
    log.chmod(0)
    assert_told(run_apart("dump-log", log, *way, before=without_power_over_files), log, 4)


def test_a_folder_without_permission(log: pathlib.Path) -> None:
    log.parent.chmod(0)
    try:
        done = run_apart("dump-log", log.parent, before=without_power_over_files)
    finally:
        log.parent.chmod(0o700)
    assert_told(done, log.parent, 4)


def test_a_folder_with_the_name_of_a_log(tmp_path: pathlib.Path, way: list[str]) -> None:
    path = tmp_path / SEGMENT
    path.mkdir()
    done = read(path, *way)
    assert "Traceback" not in done.err
    assert done.status in (0, 2, 4)
    assert str(path) in done.err


def test_what_is_no_regular_file_is_not_waited_for(
    tmp_path: pathlib.Path, way: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fifo, device, plug = (tmp_path / f"{n:020d}.log" for n in range(3))
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(plug))  # an absolute path may be too long for one
        for path in (fifo, device, plug):
            assert_told(read(path, *way), path, 4)


def test_a_fifo_in_a_partition_dir_does_not_stop_the_rest(log: pathlib.Path) -> None:
    os.mkfifo(log.with_name("00000000000000000099.log"))
    done = read(log.parent)
    assert_told(done, log.with_name("00000000000000000099.log"), 4)
    assert b"baseOffset: 34" in done.out


def test_links_in_a_circle(tmp_path: pathlib.Path) -> None:
    path = tmp_path / SEGMENT
    path.symlink_to(path)
    assert_told(read(path), path, 4)


# ---------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["dump-log"],
        ["dump-log", "--no-such-option", "x.log"],
        ["dump-log", "x.log", "--format", "xml"],
        ["dump-log", "x.log", "--offsets", "5..x"],
        ["dump-log", "x.log", "--format", "parquet"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_2(arguments: list[str]) -> None:
    done = run_apart(*arguments)
    assert done.status == 2
    assert done.out == b""
    assert "Traceback" not in done.err
    assert done.err


def test_output_that_cannot_be_written(log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    place = tmp_path / "missing" / "out.parquet"
    done = run_apart("dump-log", log, "--format", "parquet", "--output", place)
    assert "Traceback" not in done.err
    assert str(place) in done.err
    assert done.status in (2, 4)


# ---------------------------------------------------------------- the other end of the pipe


@pytest.fixture
def long_log(tmp_path: pathlib.Path) -> pathlib.Path:
    """A segment whose dump is larger than any pipe."""
    batches = (FIXTURES / "every-codec/logdir/create-0" / SEGMENT).read_bytes()
    path = tmp_path / SEGMENT
    path.write_bytes(batches * 2000)
    return path


def blocked(path: pathlib.Path, *options: str) -> subprocess.Popen[bytes]:
    """klogtool with a pipe as stdout that nobody reads from, once it has begun to print."""
    command = [*KLOGTOOL, "dump-log", str(path), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(1)
    return process


def test_the_reader_of_stdout_goes_away(long_log: pathlib.Path, way: list[str]) -> None:
    process = blocked(long_log, *way)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_head_in_a_shell(long_log: pathlib.Path) -> None:
    script = '"$@" | head -n 1; echo "${PIPESTATUS[0]}"'
    command = ["bash", "-c", script, "bash", *KLOGTOOL, "dump-log", str(long_log), "--print-data-log"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [f"Dumping {long_log}".encode(), b"141"]
    assert done.stderr == b""


def test_an_interrupt(long_log: pathlib.Path, way: list[str]) -> None:
    process = blocked(long_log, *way)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == b""


SAID = {
    ">&-": "klogtool: stdout is closed\n",
    ">/dev/full": "klogtool: stdout: no space left on device\n",
    "2>&- >&-": "",
    ">/dev/full 2>&1": "",
}
WRITERS = {
    "a dump": "dump-log LOG",
    "a long dump": "dump-log LOG --print-data-log --format json",
    "bytes": "read FOLDER --offset 0 --raw -",
    "a table": "verify FOLDER",
    "help": "--help",
    "long help": "dump-log --help",
    "another's help": "help verify",
    "a version": "--version",
    "an explanation": "explain batch-crc",
    "a script": "completion bash",
}


def redirected(line: str) -> tuple[int, str]:
    """Status and stderr of klogtool in a shell. Neither is to be Python's own."""
    done = subprocess.run(
        ["bash", "-c", f'"$@" {line}', "bash", *KLOGTOOL], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("where", SAID)
@pytest.mark.parametrize("writer", WRITERS)
def test_stdout_that_is_closed_or_full(log: pathlib.Path, writer: str, where: str) -> None:
    line = WRITERS[writer].replace("LOG", shlex.quote(str(log))).replace("FOLDER", shlex.quote(str(log.parent)))
    assert redirected(f"{line} {where}") == (4, SAID[where])


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_stderr_that_is_closed_or_full_changes_nothing_else(log: pathlib.Path, where: str) -> None:
    assert redirected(f"no-such-command {where}") == (2, "")
    assert redirected(f"dump-log {shlex.quote(str(log.with_name('no.log')))} {where}") == (2, "")
    tear_at(log, 100)
    assert redirected(f"dump-log {shlex.quote(str(log))} {where} >/dev/null") == (1, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [("--version", (0, "")), ("--version >&-", (4, SAID[">&-"])), ("no-such-command 2>&-", (2, ""))],
)
def test_a_chroot_without_dev_null(line: str, expected: tuple[int, str]) -> None:
    """Nor anything else that stands for it: a rescue system, an image without its devices."""
    without = "import os, runpy; os.devnull = '/nowhere/null'; runpy.run_module('klogtool', run_name='__main__')"
    done = subprocess.run(
        ["bash", "-c", f'"$@" {line}', "bash", sys.executable, "-c", without],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == expected


def test_a_file_that_is_cut_while_it_is_read(long_log: pathlib.Path) -> None:
    process = blocked(long_log)
    os.truncate(long_log, 1000)
    time.sleep(0.1)
    out, said = process.communicate(timeout=60)
    assert process.returncode >= 0, "killed by a signal"
    assert b"Traceback" not in said
    assert out


def test_debug_shows_the_traceback(log: pathlib.Path) -> None:
    log.chmod(0)
    done = run_apart("--debug", "dump-log", log, before=without_power_over_files)
    if done.status == 2:  # where the option belongs to the command
        done = run_apart("dump-log", log, "--debug", before=without_power_over_files)
    assert "Traceback" in done.err
    assert done.status == 4
