"""Programs and packages that decode: large values, programs that end, hang or answer nonsense."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from running import KLOGTOOL, ROOT, run_apart

from klogtool.decoding import formats
from klogtool.decoding.formats import find_decoder, known_formats
from klogtool.decoding.piped import PipedDecoder
from klogtool.decoding.record_values import PartDecoder
from klogtool.errors import Corrupt, KlogError

LOGS = ROOT / "docs/examples/values/logdir"
EACH = """
import json, sys, os, time
def read(size):
    return sys.stdin.buffer.read(size)
while head := read(4):
    value = read(int.from_bytes(head, "big"))
    {}
"""


def command(body: str) -> str:
    return f"exec {shlex.quote(sys.executable)} -c {shlex.quote(EACH.format(body))}"


SIZES = command('print(json.dumps({"size": len(value)}))')


def told_by(body: str, *values: bytes, timeout_s: float = 20) -> list[Any]:
    """The decoded value, or the reason, of each value."""
    with PipedDecoder(command(body), timeout_s=timeout_s) as program:
        piece = PartDecoder("decoder", program)
        found = [piece.decoded(value, "t") for value in values]
        return [one.failure if one.reading is None else one.reading.value for one in found]


def test_values_of_any_size_come_back() -> None:
    values = [b"", b"a", bytes(3 << 20), b"\n\0"]
    assert told_by("print(json.dumps(value.hex()))", *values) == [value.hex() for value in values]


def test_a_program_may_answer_before_it_has_read_all() -> None:
    """Neither side waits for the other, although both pipes are full."""
    with PipedDecoder("exec cat", timeout_s=20) as program, pytest.raises(Corrupt, match="answer"):
        program(b'"' + b"a" * (2 << 20) + b'"\n', None)


def test_a_program_that_ends_is_not_asked_again() -> None:
    told = told_by("sys.exit(3) if value == b'b' else print(1)", b"a", b"b", b"c")
    assert told == [1, "the decoder has ended (exit status 3)", "the decoder has ended (exit status 3)"]


def test_a_program_that_does_not_exist() -> None:
    with PipedDecoder("no-such-program-here", timeout_s=20) as program, pytest.raises(Corrupt, match="exit status 127"):
        program(b"a" * 100_000, None)


def test_a_program_that_is_killed() -> None:
    told = told_by("os.kill(os.getpid(), 9)", b"a")
    assert told == ["the decoder has ended (signal 9)"]


def test_a_program_that_hangs() -> None:
    told = told_by("time.sleep(600)", b"a", b"b", timeout_s=0.3)
    assert [str(reason).split(" (")[0] for reason in told] == ["the decoder did not answer within 0.3 seconds"] * 2


def test_a_program_that_answers_byte_by_byte() -> None:
    """The time is that of the whole answer, not of the silence in it."""
    body = "\n    ".join(["while True:", "    sys.stdout.write('a'); sys.stdout.flush(); time.sleep(0.05)"])
    assert [str(told).split(" (")[0] for told in told_by(body, b"a", timeout_s=0.5)] == [
        "the decoder did not answer within 0.5 seconds"
    ]


def test_a_program_that_does_not_read() -> None:
    with PipedDecoder("exec sleep 600", timeout_s=0.3) as program, pytest.raises(Corrupt, match="did not answer"):
        program(bytes(1 << 20), None)


def test_an_answer_without_end_is_cut() -> None:
    body = "\n    ".join(["while True:", "    sys.stdout.write('a' * 100000)"])
    assert told_by(body, b"a") == ["the decoder's answer is longer than 16 MiB"]


def test_too_many_lines_are_noticed() -> None:
    """Else each answer would be shown for the value after its own."""
    told = told_by("sys.stdout.write('1\\n2\\n'); sys.stdout.flush(); time.sleep(0.1)", b"a", b"b")
    assert told == [1, "the decoder gave more than one line for a value"] or told[1].startswith(
        "the decoder gave more than one line"
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("print()", "the decoder gave an empty line"),
        ("print('x')", "the decoder's answer: not JSON at byte 0"),
        ("print('NaN')", "the decoder's answer: not JSON: NaN"),
        ("print('[' * 5000)", "the decoder's answer: nested too deeply"),
        ("sys.stdout.buffer.write(bytes([255, 10]))", "the decoder's answer: not UTF-8 at byte 0"),
        ("print('null')", None),
    ],
)
def test_nonsense_is_one_value_only(body: str, told: str | None) -> None:
    assert told_by(f"{body}; sys.stdout.flush()", b"a", b"b") == [told, told]


def decoded(how: str, *more: str) -> Any:
    return run_apart("dump-log", LOGS / "profiles-0", "--value-decoder", how, "--skip-record-metadata", *more)


def test_the_dump_goes_on_without_the_program() -> None:
    done = decoded(command("sys.exit(3) if b'NaN' in value else print(1)"))
    assert done.status == 4
    assert b"| key: ann payload: 1\n" in done.out
    assert b"| key: bob payload: 7b22616765223a204e614e7d (not decoded: the decoder has ended" in done.out
    assert "klogtool: --value-decoder: the decoder has ended (exit status 3); what followed is not decoded" in done.told
    assert len(done.told.splitlines()) == 2


def test_what_the_program_says_on_stderr_is_shown() -> None:
    done = decoded(command("print('hello', file=sys.stderr); print(1)"))
    assert (done.status, done.told) == (0, "hello\n" * 2)


def test_the_status_is_that_of_the_log_if_the_program_does_its_work() -> None:
    assert decoded(SIZES).status == 0
    assert decoded(command("print()")).status == 0


def test_a_program_that_reads_on_is_ended_at_the_end() -> None:
    assert decoded("trap '' TERM; " + SIZES.removeprefix("exec ") + "; sleep 1").status == 0


def is_there(mark: str) -> bool:
    for found in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in found.read_bytes().decode(errors="replace"):
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_both(number: int) -> None:
    mark = f"mark-{os.getpid()}-{number}"
    how = command(f"time.sleep(600); {mark!r}")
    run = subprocess.Popen(
        [*KLOGTOOL, "dump-log", str(LOGS / "profiles-0"), "--value-decoder", how], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while not any(
        mark in (found.read_bytes().decode(errors="replace") if found.exists() else "")
        for found in children_of(run.pid)
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    run.send_signal(number)
    assert run.wait(30) == 130
    assert not is_there(f"time.sleep(600); '{mark}'")


def children_of(pid: int) -> list[pathlib.Path]:
    listed = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [pathlib.Path(f"/proc/{child}/cmdline") for child in listed.read_text().split()] if listed.exists() else []


def test_a_reader_who_goes_away_ends_it_quietly() -> None:
    words = shlex.join([*KLOGTOOL, "dump-log", str(LOGS), "--value-decoder", SIZES, "--quiet"])
    done = subprocess.run(["bash", "-c", f"{words} | true; exit ${{PIPESTATUS[0]}}"], cwd=ROOT, capture_output=True)
    assert done.returncode in (0, 141)
    assert b"Traceback" not in done.stderr


# Packages.


def installed(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        point = EntryPoint("acme", target, group)
        return [point] if name in (None, point.name) and group == formats.GROUP else []

    monkeypatch.setattr(formats, "entry_points", entry_points)


def told_by_package(monkeypatch: pytest.MonkeyPatch, decode: Callable[..., Any]) -> Any:
    monkeypatch.setattr(sys.modules[__name__], "decode_here", decode, raising=False)
    installed(monkeypatch, f"{__name__}:decode_here")
    found = PartDecoder("acme", find_decoder("acme", None, is_key=True)).decoded(b"abc", "t")
    return found.failure if found.reading is None else found.reading.value


def test_a_package_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = told_by_package(monkeypatch, lambda data, topic, is_key: {"data": data, "topic": topic, "is_key": is_key})
    assert found == {"data": {"utf8": "abc"}, "topic": "t", "is_key": True}
    assert known_formats()[-1] == "acme"


def failing(error: BaseException) -> Callable[..., Any]:
    def decode(*_: object) -> Any:
        raise error

    return decode


def recursive(*_: object) -> Any:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("decode", "told"),
    [
        (failing(RuntimeError("no\nway")), "RuntimeError: no"),
        (failing(KeyError()), "KeyError"),
        (lambda *_: object(), "the decoder gave a object, which JSON does not have"),
        (lambda *_: 1 << 100_000, "a number of 100,001 bits"),
        (lambda *_: {(1,): 2}, "an object's key is a tuple, which JSON does not have"),
        (recursive, "nested deeper than 100"),
    ],
)
def test_whatever_a_package_does_is_a_reason(monkeypatch: pytest.MonkeyPatch, decode: Any, told: str) -> None:
    assert told_by_package(monkeypatch, decode) == told


def test_an_interrupt_inside_a_package_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        told_by_package(monkeypatch, failing(KeyboardInterrupt()))


@pytest.mark.parametrize("target", ["no_such_module_here:decode", "json:no_such_name", "json:__name__"])
def test_a_package_that_cannot_be_loaded_is_one_line(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    installed(monkeypatch, target)
    with pytest.raises(KlogError, match="the decoder acme"):
        find_decoder("acme", None, is_key=False)


def test_an_installed_package_is_found_by_its_entry_point(tmp_path: pathlib.Path) -> None:
    (tmp_path / "acme_wire.py").write_text("def decode(data, topic, is_key):\n    return [topic, is_key, len(data)]\n")
    about = tmp_path / "acme_wire-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-wire\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[klogtool.decoders]\nacme = acme_wire:decode\n")
    words = [*KLOGTOOL, "dump-log", str(LOGS / "profiles-0"), "--key-format", "acme", "--skip-record-metadata"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, timeout=60)
    assert b'| key: ["profiles",true,3] payload: {"age": 31' in done.stdout


def test_json_lines_have_the_answer() -> None:
    rows = [json.loads(line) for line in decoded(SIZES, "--format", "json").out.splitlines()]
    assert [row["value_decoded"] for row in rows if row["type"] == "record"] == [
        {"format": "decoder", "value": {"size": size}} for size in (34, 12)
    ]
