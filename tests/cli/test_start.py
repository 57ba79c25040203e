"""What is plain goes round click: it must be understood as click would have understood it, and start fast."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import click
import pytest
from running import ROOT

import klogtool
from klogtool import kernels
from klogtool.cli import main, start
from klogtool.cli.kafka_options import STRING_DECODER, KafkaOptions, only_kafkas
from klogtool.cli.plain import plain_circumstances, plain_words
from klogtool.lazy_dataclasses import replace
from klogtool.repair.circumstances import Circumstances

LOG = "fixtures/every-codec/logdir/create-0/00000000000000000000.log"
FOLDER = "fixtures/killed-mid-append/logdir/zero-tail-0"
SOUND, TRANSACTIONS = "fixtures/every-codec/logdir/create-0", "fixtures/transactions/logdir/t-0"
DAMAGED = f"{FOLDER}/00000000000000000055.log"


@pytest.mark.parametrize(
    "files", [["--files", LOG], ["--files", DAMAGED], [LOG, LOG], [FOLDER], ["none"]], ids=" ".join
)
@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--deep-iteration", "--max-bytes=300"],
        ["--print-data-log", "--skip-record-metadata"],
        ["-print-data-log=ignored", "-max-bytes", "900"],
        ["--value-decoder-class", STRING_DECODER],
        ["--value-decoder-class", "--key-decoder-class=" + STRING_DECODER],
        ["--key-decoder-class", "no.such.Decoder"],
        ["--max-bytes", "many"],
        ["--max-bytes", "1", "--max-bytes", "2"],
        ["--cluster-metadata-decoder", "--offsets-decoder"],
        ["--jobs", "2", "--deep-iteration"],
    ],
    ids=" ".join,
)
def test_the_short_way_prints_what_the_long_way_prints(
    files: list[str], words: list[str], capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    args = ["dump-log", *words, *files]
    assert only_kafkas(args[1:]) is not None
    status = start.run(args)
    short = capfdbinary.readouterr()
    assert main.run(args) == status
    assert capfdbinary.readouterr() == short
    assert short.out or short.err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["-"],
        ["--", "x.log"],
        ["x.log", "--resync"],
        ["x.log", "--files", "y.log"],
        ["--print-data-log"],
        ["--files"],
        ["--files", "x.log", "--max-bytes"],
        ["--files", "x.log", "word"],
        ["--files", "x.log", "--format", "json"],
        ["--files", "x.log", "--jobs", "0"],
        ["--files", "x.log", "--jobs"],
        ["--files", "x.log", "--deep"],
        ["--files", "x.log", "--help"],
        ["--files", "x.log", "--", "y"],
    ],
    ids=" ".join,
)
def test_all_else_goes_through_click(words: list[str]) -> None:
    assert only_kafkas(words) is None


def test_an_argument_is_taken_whatever_it_looks_like() -> None:
    given = only_kafkas(["--files", "--deep-iteration"])
    assert given is not None
    assert KafkaOptions(given).files() == ["--deep-iteration"]
    assert "deep_iteration" not in given


PLAIN = [
    ["verify", "dir"],
    ["verify", "dir", "other", "--jobs", "3", "-q"],
    ["verify", "--deep", "dir", "--notes", "--no-progress", "--quiet", "--format", "json"],
    ["verify", "--recover", "dir", "--jobs", "007"],
    ["rebuild-index", "dir"],
    ["rebuild-index", "-q", "--jobs", "1", "--format", "text", "dir"],
]
FOR_CLICK = [
    ["verify"],
    ["verify", "dir", "--help"],
    ["verify", "dir", "--"],
    ["verify", "dir", "-"],
    ["verify", "dir", "--jobs", "0"],
    ["verify", "dir", "--jobs", "two"],
    ["verify", "dir", "--jobs=2"],
    ["verify", "dir", "--jobs"],
    ["verify", "dir", "--format", "xml"],
    ["verify", "dir", "--now", "5"],
    ["verify", "dir", "--recover", "--deep"],
    ["verify", "dir", "--debug"],
    ["verify", "dir", "-quiet"],
    ["verify", "dir", "--recover", "--apply"],
    ["rebuild-index", "--quiet"],
    ["rebuild-index", "dir", "--deep"],
    ["rebuild-index", "dir", "--segment", "0"],
]


@pytest.mark.parametrize("args", PLAIN, ids=" ".join)
def test_plain_words_mean_what_click_makes_of_them(args: list[str]) -> None:
    plain = plain_words(args[0], args[1:])
    assert plain is not None
    paths = plain.pop("paths")
    command = main.cli.get_command(click.Context(main.cli), args[0])
    assert command is not None
    parsed = command.make_context(args[0], args[1:]).params
    asked = [parsed.pop(name) for name in ("loaded_at", "config", "config_file", "recovery_point", "log_start_offset")]
    asked += [parsed.pop(name) for name in ("high_watermark", "last_stop")]
    assert parsed.pop("now") is None
    assert Circumstances(0, *asked) == replace(plain_circumstances(), now_ms=0)
    told = parsed.pop("paths", None) or (parsed.pop("partition"),)
    assert (told, parsed) == (paths, plain)


@pytest.mark.parametrize("args", FOR_CLICK, ids=" ".join)
def test_words_that_are_not_plain_are_clicks(args: list[str]) -> None:
    assert plain_words(args[0], args[1:]) is None


@pytest.mark.parametrize("paths", [[SOUND], [FOLDER], [SOUND, FOLDER], ["none"], [LOG]], ids=" ".join)
@pytest.mark.parametrize(
    "words",
    [
        ["verify"],
        ["verify", "--deep", "--notes"],
        ["verify", "--format", "json", "-q"],
        ["verify", "--recover"],
        ["rebuild-index"],
    ],
    ids=" ".join,
)
def test_what_is_plain_is_done_as_by_the_long_way(
    words: list[str], paths: list[str], capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("time.time_ns", lambda: 1_800_000_000_000_000_000)
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    args = [*words, *paths]
    status = start.run(args)
    short = capfdbinary.readouterr()
    assert main.run(args) == status
    assert capfdbinary.readouterr() == short
    assert short.out or short.err


# What costs milliseconds to import, as `python -X importtime` tells.
NEVER = {
    "click",
    "construct",
    "rich",
    "json",
    "threading",
    "traceback",
    "typing",
    "uuid",
    "urllib",
    "importlib.metadata",
}
NOT_FOR_A_LOG = {*NEVER, "contextlib", "dataclasses", "inspect", "re", "enum", "pathlib"}
NOT_FOR_HELP = {"construct", "rich", "json", "klogtool.render.kafka_dump"}
# What is not needed of a partition that no damage was found in, and nothing is to be written of.
NOT_FOR_A_PARTITION = {
    "click",
    "construct",
    "crcmod",
    "hashlib",
    "json",
    "rich",
    "difflib",
    "inspect",
    "pickle",
    "dataclasses",
    "importlib.metadata",
    "klogtool.format.internal",
    "klogtool.disk.journal",
    "klogtool.disk.output",
    "klogtool.disk.writer",
}
NOT_FOR_VERIFY = {
    *NOT_FOR_A_PARTITION,
    "typing",
    "contextlib",
    "re",
    "threading",
    "shlex",
    "textwrap",
}
PROGRAM = """
import sys
sys.path += sys.argv.pop(1).split(":")
from klogtool.cli.start import run
status = run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(status)
"""


@pytest.mark.skipif(kernels.native is None, reason="the reference reader needs more")
@pytest.mark.parametrize(
    ("args", "slow"),
    [
        (["dump-log", "--files", LOG], NOT_FOR_A_LOG),
        (["dump-log", "--files", LOG, "--print-data-log"], NEVER),
        (["dump-log", LOG], NOT_FOR_A_LOG),
    ],
)
def test_a_plain_dump_imports_nothing_slow(args: list[str], slow: set[str]) -> None:
    assert sorted(slow & modules_of(args)) == []


@pytest.mark.skipif(kernels.native is None, reason="the reference reader needs more")
@pytest.mark.parametrize("args", [["verify"], ["verify", "--recover"], ["rebuild-index"]], ids=" ".join)
@pytest.mark.parametrize("partition", [SOUND, TRANSACTIONS])
def test_a_sound_partition_takes_little(args: list[str], partition: str) -> None:
    assert sorted(NOT_FOR_A_PARTITION & modules_of([*args, partition])) == []


@pytest.mark.skipif(kernels.native is None, reason="the reference reader needs more")
def test_a_verification_with_one_job_takes_less() -> None:
    assert sorted(NOT_FOR_VERIFY & modules_of(["verify", "--jobs", "1", SOUND])) == []


@pytest.mark.skipif(kernels.native is None, reason="the reference reader needs more")
def test_the_version_is_told_as_by_the_long_way(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert start.run(["--version"]) == 0
    short = capfdbinary.readouterr()
    assert main.run(["--version"]) == 0
    assert capfdbinary.readouterr() == short
    assert not NOT_FOR_VERIFY & modules_of(["--version"])


def test_help_imports_only_what_it_says() -> None:
    assert sorted(NOT_FOR_HELP & modules_of(["--help"])) == []


def modules_of(args: list[str]) -> set[str]:
    """What a run imports; without `site`, which imports some of it for a klogtool that is installed as editable."""
    where = ":".join(str(pathlib.Path(str(package.__file__)).parent.parent) for package in (klogtool, click))
    command = [sys.executable, "-S", "-c", PROGRAM, where, *args]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.split())


@pytest.mark.parametrize("words", [["dump-log", "--files", LOG], ["verify", SOUND], ["--version"]], ids=" ".join)
def test_a_program_that_calls_the_entry_point_goes_on(words: list[str]) -> None:
    script = f"""
import importlib.metadata, sys
main = importlib.metadata.entry_points(group="console_scripts", name="klogtool")["klogtool"].load()
sys.argv = ["klogtool", *{words!r}]
try:
    main()
except SystemExit as stop:
    print("goes on after", stop.code)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("goes on after 0\n"), done
