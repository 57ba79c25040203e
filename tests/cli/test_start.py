"""A plain `dump-log --files` goes round click: it must be understood as click would have understood it."""

from __future__ import annotations

import pytest

from klogtool.cli import main, start
from klogtool.cli.kafka_options import STRING_DECODER, KafkaOptions, only_kafkas

LOG = "fixtures/every-codec/logdir/create-0/00000000000000000000.log"


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
    words: list[str], capfdbinary: pytest.CaptureFixture[bytes], request: pytest.FixtureRequest
) -> None:
    args = ["dump-log", "--files", str(request.config.rootpath / LOG), *words]
    assert only_kafkas(args[1:]) is not None
    status = start.run(args)
    short = capfdbinary.readouterr()
    assert main.run(args) == status
    assert capfdbinary.readouterr() == short
    assert short.out


@pytest.mark.parametrize(
    "words",
    [
        ["x.log"],
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
