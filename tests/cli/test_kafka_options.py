"""kafka-dump-log's words as its own parser takes them: what Kafka 4.3.1's tool made of each of these words."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from running import Done
from vectors import BATCH, MAGIC_0_NULL_KEY, MAGIC_1

from klogtool.errors import KlogError
from klogtool.render.kafka_options import KafkaArguments, KafkaOptions, as_kafka_reads

LOG = "00000000000000000000.log"
SHALLOW, DEEP = 3, 7  # lines of the log's dump, "Dumping" and its heading not counted

Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: pathlib.Path, klogtool: Run) -> Callable[..., Done]:
    """dump-log in a folder that holds one log."""
    (tmp_path / LOG).write_bytes(BATCH.data + MAGIC_1.data + MAGIC_0_NULL_KEY.data)
    return lambda *words: klogtool("dump-log", *words, folder=tmp_path)


def shown(done: Done) -> int:
    """How many lines of entries; what is dumped and what it is called are taken off."""
    lines = done.out.decode().splitlines()
    assert lines[:2] == [f"Dumping {LOG}", "Log starting offset: 0"], done
    return len(lines) - 2


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["--files", "f"], ["--files", "f"]),
        (["--files=f"], ["--files=f"]),
        (["-files", "f"], ["--files", "f"]),
        (["-files=f=g"], ["--files=f=g"]),
        (["---files", "f"], ["---files", "f"]),
        (["--deep-iteration=false"], ["--deep-iteration"]),
        (["-deep-iteration="], ["--deep-iteration"]),
        (["--offsets-decoder=x"], ["--offsets-decoder"]),
        (["--files", "--deep-iteration=no"], ["--files", "--deep-iteration=no"]),
        (["--files", "-deep-iteration"], ["--files", "-deep-iteration"]),
        (["--files", "--", "-deep-iteration"], ["--files", "--", "--deep-iteration"]),
        (["--max-bytes", "-5"], ["--max-bytes", "-5"]),
        (["--value-decoder-class", "-files", "f"], ["--value-decoder-class", "--files", "f"]),
        (["--", "-files", "f"], ["--", "-files", "f"]),
        (["word", "-", "-x"], ["word", "-", "-x"]),
    ],
)
def test_words_in_klogtools_spelling(words: list[str], read: list[str]) -> None:
    assert as_kafka_reads(words) == read


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--files", LOG], SHALLOW),
        ([f"--files={LOG}"], SHALLOW),
        (["-files", LOG], SHALLOW),
        ([f"-files={LOG}"], SHALLOW),
        (["--files", LOG, "--deep-iteration=false"], DEEP),
        (["--files", LOG, "extra", "words"], SHALLOW),
        (["--files", LOG, "-"], SHALLOW),
        (["--files", LOG, "--", "--deep-iteration"], SHALLOW),
        (["--files", LOG, "--print-data-log", "--print-data-log"], DEEP),
        (["--files", LOG, "--value-decoder-class"], DEEP),
        (["--value-decoder-class", "--files", LOG], DEEP),
        (["--value-decoder-class=org.apache.kafka.tools.api.StringDecoder", "--files", LOG], DEEP),
        (["-value-decoder-class", "org.apache.kafka.tools.api.StringDecoder", "--files", LOG], DEEP),
        (["--files", LOG, "--max-bytes", "+100"], 1),
        (["--files", LOG, "--max-message-size", "no number"], SHALLOW),
        (["--files", LOG, "--index-sanity-check", "--verify-index-only"], SHALLOW),
    ],
)
def test_words_that_kafka_takes(run: Run, words: list[str], lines: int) -> None:
    done = run(*words)
    assert (shown(done), done.status) == (lines, 0)


@pytest.mark.parametrize(
    "words",
    [
        ["---files", LOG],
        ["--files", LOG, "--files", LOG],
        ["--value-decoder-class", "-x", "--files", LOG],
        ["--files", LOG, "--deep"],
        ["--files", LOG, "-d"],
        ["--files"],
        ["--files", LOG, "--max-bytes"],
    ],
    ids=" ".join,
)
def test_words_that_kafka_dies_of_at_once(run: Run, words: list[str]) -> None:
    done = run(*words)
    assert (done.out, done.status) == (b"", 2)
    assert done.err


@pytest.mark.parametrize(
    ("words", "out", "status"),
    [
        (["--max-bytes", "abc"], f"Dumping {LOG}\n", 2),
        (["--max-bytes="], f"Dumping {LOG}\n", 2),
        (["--max-bytes", "99999999999"], f"Dumping {LOG}\n", 2),
        (["--max-bytes", "1", "--max-bytes", "2"], f"Dumping {LOG}\n", 2),
        (["--max-bytes", "-5"], f"Dumping {LOG}\nLog starting offset: 0\n", 1),
        (["--key-decoder-class", "x", "--key-decoder-class", "y"], f"Dumping {LOG}\n", 2),
        (["--key-decoder-class", ""], f"Dumping {LOG}\n", 2),
        (["--key-decoder-class="], f"Dumping {LOG}\n", 2),
        (["--key-decoder-class", "kafka.serializer.StringDecoder"], f"Dumping {LOG}\n", 2),
    ],
)
def test_arguments_are_looked_at_where_they_are_needed(run: Run, words: list[str], out: str, status: int) -> None:
    done = run("--files", LOG, *words)
    assert (done.out.decode(), done.status) == (out, status)
    assert "Traceback" not in done.err
    assert done.err


def test_an_argument_of_indexes_only(run: Run, tmp_path: pathlib.Path) -> None:
    (tmp_path / LOG).with_suffix(".index").write_bytes(bytes(8))
    done = run("--files", "00000000000000000000.index", "--max-message-size", "no number")
    assert (done.out, done.status) == (b"Dumping 00000000000000000000.index\n", 2)


def test_a_decoder_that_wants_more_bytes_ends_the_dump(run: Run) -> None:
    done = run("--value-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder", "--files", LOG)
    assert (shown(done), done.status) == (2, 1)
    assert done.out.endswith(b" headerKeys: []")  # half a line


def test_of_two_decoders_the_first_in_kafkas_order_counts(run: Run) -> None:
    done = run("--transaction-log-decoder", "--offsets-decoder", "--files", LOG)
    assert done.status == 1
    assert b" key: Unknown record type 27440 at offset 0, skipping." in done.out  # "k0" as a type of __consumer_offsets


# ---------------------------------------------------------------- --files


@pytest.mark.parametrize(
    ("value", "files"),
    [
        ("a.log", ["a.log"]),
        ("a.log,b.log,a.log", ["a.log", "b.log", "a.log"]),
        ("a.log, b.log", ["a.log", " b.log"]),
        ("a,,b", ["a", "", "b"]),
        ("a,,", ["a"]),
        (",a", ["", "a"]),
        (",", []),
        (",,,", []),
        ("", [""]),
        ("t-0//a.log", ["t-0/a.log"]),
        ("///", ["/"]),
        ("t-0/", ["t-0"]),
    ],
)
def test_files_are_split_as_java_splits(value: str, files: list[str]) -> None:
    assert options(files=(value,)).files() == files


def test_each_file_in_its_turn(run: Run) -> None:
    done = run("--files", f"a,,{LOG},")
    lines = done.out.decode().splitlines()
    assert lines[:4] == ["Dumping a", "Dumping ", f"Dumping {LOG}", "Log starting offset: 0"]
    assert (len(lines), done.status) == (4 + SHALLOW, 0)
    assert done.told.splitlines() == ["Ignoring unknown file a", "Ignoring unknown file "]


def test_no_file_at_all(run: Run) -> None:
    done = run("--files", ",")
    assert (done.out, done.told, done.status) == (b"", "", 0)


def test_the_word_behind_files_is_one_whatever_it_looks_like(run: Run) -> None:
    for word in ("--deep-iteration", "--", "-files"):
        done = run("--files", word)
        assert (done.out.decode(), done.status) == (f"Dumping {word}\n", 0)
        assert done.told == f"Ignoring unknown file {word}\n"


def test_a_file_that_cannot_be_read_ends_the_dump(run: Run, tmp_path: pathlib.Path) -> None:
    shutil.copy(tmp_path / LOG, tmp_path / "00000000000000000007.log")
    done = run("--files", f"00000000000000000007.log,5.log,{LOG}")
    assert done.out.decode().splitlines()[-2:] == ["Dumping 5.log", "Log starting offset: 5"]
    assert (done.out.count(b"Dumping"), done.status) == (2, 2)


# ---------------------------------------------------------------- what the options come to


def options(**given: Any) -> KafkaOptions:
    return KafkaOptions(KafkaArguments(**given))


def test_defaults() -> None:
    nothing = options()
    assert (nothing.max_bytes(), nothing.max_message_size()) == (2**31 - 1, 5 * 1024 * 1024)
    assert (nothing.sanity_only, nothing.verify_only) == (False, False)
    records = nothing.records()
    assert (records.deep, records.print_data, records.skip_metadata, records.decoder) == (False, False, False, None)


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("+5", 5), ("-5", -5), ("007", 7), ("٣", 3), ("2147483647", 2**31 - 1)]
)
def test_numbers_are_javas(text: str, number: int) -> None:
    assert options(max_bytes=(text,)).max_bytes() == number


@pytest.mark.parametrize("text", ["", " 5", "5 ", "1_000", "0x10", "5.0", "2147483648", "--5", "½"])
def test_what_java_takes_for_no_number(text: str) -> None:
    with pytest.raises(KlogError, match="cannot parse argument") as found:
        options(max_message_size=(text,)).max_message_size()
    assert found.value.kafka_class == "OptionArgumentConversionException"


@pytest.mark.parametrize(
    ("given", "deep", "prints"),
    [
        ({"deep_iteration": True}, True, False),
        ({"print_data_log": True}, True, True),
        ({"value_decoder_class": ("org.apache.kafka.tools.api.StringDecoder",)}, True, True),
        ({"key_decoder_class": ("org.apache.kafka.tools.api.LongDecoder",)}, True, True),
        ({"offsets_decoder": True}, True, True),
        ({"transaction_log_decoder": True}, True, True),
        ({"cluster_metadata_decoder": True}, True, True),
        ({"remote_log_metadata_decoder": True}, True, True),
        ({"share_group_state_decoder": True}, True, True),
        ({"skip_record_metadata": True}, False, False),
    ],
)
def test_what_prints_data_reads_records(given: dict[str, Any], deep: bool, prints: bool) -> None:
    records = options(**given).records()
    assert (records.deep, records.print_data) == (deep, prints)


def test_the_default_decoders_are_none_so_that_the_kernel_prints() -> None:
    name = "org.apache.kafka.tools.api.StringDecoder"
    assert options(value_decoder_class=(name,), key_decoder_class=(name,)).records().decoder is None
    assert options(value_decoder_class=("org.apache.kafka.tools.api.LongDecoder",)).records().decoder is not None


def test_a_topics_decoder_goes_before_classes() -> None:
    decoder = options(offsets_decoder=True, key_decoder_class=("no such class",)).records().decoder
    assert decoder is not None
    assert decoder.wants_key
