"""What the terminal is like: its width, its colours, and what is coloured."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import termios

import pytest
from running import FIXTURES, KLOGTOOL, ROOT

from klogtool.render.terminal import painted

LOSING = FIXTURES / "killed-mid-append/logdir/flip-bit-0"


def on_terminal(*args: str, columns: int = 100, **environment: str) -> str:
    """What a terminal of that width gets on stdout."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24 if columns else 0, columns, 0, 0))
    given = {
        key: value
        for key, value in os.environ.items()
        if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "TERM")
    }
    process = subprocess.Popen(
        [*KLOGTOOL, *args],
        cwd=ROOT,
        env=given | {"TERM": "xterm"} | environment,
        stdout=slave,
        stdin=subprocess.DEVNULL,
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            seen += os.read(master, 1 << 16)
        except OSError:  # nobody has its other end any more
            break
    process.wait()
    os.close(master)
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_what_is_lost_is_in_colour_and_words_say_the_same() -> None:
    told = on_terminal("recover", str(LOSING))
    assert "\x1b[1;31mLOSES offsets 47 to 70\x1b[0m" in told
    plain = subprocess.run([*KLOGTOOL, "recover", str(LOSING)], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    assert re.sub(r"\x1b\[[0-9;]*m", "", told) == plain.stdout.decode()
    assert b"\x1b" not in plain.stdout


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": "unknown"}, {"NO_COLOR": "1"}], ids=str)
def test_where_there_are_no_colours(environment: dict[str, str]) -> None:
    assert "\x1b" not in on_terminal("recover", str(LOSING), **environment)
    assert "\x1b" not in on_terminal("verify", str(LOSING), **environment)


FORCED = [{"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}, {"FORCE_COLOR": "3", "TERM": "dumb"}]
NOT_FORCED = [{}, {"FORCE_COLOR": "0"}, {"FORCE_COLOR": ""}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}]


def piped(*args: str, **environment: str) -> str:
    """What a pipe gets on stdout and stderr."""
    done = subprocess.run(
        [*KLOGTOOL, *args], cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout.decode()


@pytest.mark.slow
@pytest.mark.parametrize("environment", [*FORCED, *NOT_FORCED], ids=str)
def test_colours_that_are_forced_are_in_text_alone(environment: dict[str, str]) -> None:
    assert ("\x1b" in piped("recover", str(LOSING), **environment)) == (environment in FORCED)
    assert "\x1b" not in piped("doctor", str(LOSING.parent), "--format", "json", **environment)
    assert "\x1b" not in piped("verify", str(LOSING), "--format", "github", **environment)
    assert "\x1b" not in piped("dump-log", "--quiet", str(LOSING), **environment)


@pytest.mark.parametrize(("columns", "most"), [(0, 80), (80, 80), (60, 60), (200, 200)])
def test_text_is_as_wide_as_the_terminal(columns: int, most: int) -> None:
    told = on_terminal("verify", str(LOSING), columns=columns, NO_COLOR="1")
    filled = [line for line in told.splitlines() if line.startswith("         ") and "→" not in line]
    assert max(map(len, filled)) <= most
    assert max(map(len, filled)) > most * 0.6


@pytest.mark.parametrize(
    ("line", "coloured"),
    [
        ("error    t-0/x", "error"),
        ("warning  t-0/x", "warning"),
        ("t-0: LOSES offset 3; ends at offset 3", "LOSES offset 3"),
        ("In all: 2 of 40 partitions LOSE 1,204 offsets;", "LOSE"),
        ("t-0: 1 append; 1 REFUSED; ends at offset 3", "REFUSED"),
        ("t-0: MISSING offsets 38 to 61 at its end", "MISSING offsets 38 to 61"),
        ("  …0    1 GiB  delete  retention.ms", "delete"),
        ("  deleted    2 segments (0, 7): 12 bytes of records", "deleted"),
        ("  truncate  0.log  to 3 bytes", "truncate"),
        ("to-delete-0: nothing to delete", None),
        ("errors: none", None),
        ('{"title":"t-0: LOSES offset 3"}', None),
    ],
)
def test_what_is_coloured(line: str, coloured: str | None) -> None:
    assert re.findall(r"\x1b\[1;\d+m(.*?)\x1b\[0m", painted(line)) == ([] if coloured is None else [coloured])


@pytest.mark.slow
def test_json_of_hostile_records_is_escaped_on_a_terminal_only(tmp_path: pathlib.Path) -> None:
    evil = "\x9b2J\u202e\U000e0041\x7f"
    shutil.copytree(FIXTURES / "leader-epochs/logdir", tmp_path / "logs")
    records = tmp_path / "records"
    records.write_text(json.dumps({"key": evil, "value": evil, "timestamp": 1}) + "\n")
    partition = str(tmp_path / "logs/t-0")
    subprocess.run([*KLOGTOOL, "append", partition, "--records", str(records), "--apply"], cwd=ROOT, check=True)
    for words in (["dump-log", partition], ["read", partition, "--offset", "78", "--records"]):
        told = on_terminal(*words, "--format", "json")
        assert evil not in told
        assert not re.search("[\x7f-\x9f\u202e\U000e0041]", told)
        piped = subprocess.run([*KLOGTOOL, *words, "--format", "json"], cwd=ROOT, stdout=subprocess.PIPE, check=False)
        assert evil in piped.stdout.decode()
        assert list(map(json.loads, told.splitlines())) == list(map(json.loads, piped.stdout.decode().split("\n")[:-1]))
