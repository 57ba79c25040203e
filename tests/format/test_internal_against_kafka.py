"""The schemas and decoders of internal topics against Kafka's jars and its DumpLogSegments."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest
from kafka.kafka import Kafka, Unavailable, prepare
from mutate import mutations
from raw_batches import build_batch
from running import ROOT
from test_internal_decoders import DECODERS, GOLDEN, from_hex

from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.format.control_values import control_text

pytestmark = pytest.mark.kafka

OPTIONS = {
    "offsets": "--offsets-decoder",
    "transaction": "--transaction-log-decoder",
    "share": "--share-group-state-decoder",
    "cluster": "--cluster-metadata-decoder",
    "remote": "--remote-log-metadata-decoder",
}
LOG = "t-0/00000000000000000000.log"
SEED = 20260


@pytest.fixture(scope="module")
def home() -> pathlib.Path:
    try:
        return prepare()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def asked(home: pathlib.Path) -> Iterator[Kafka]:
    with Kafka(home) as kafka:
        yield kafka


def test_schemas_are_those_in_the_jars(home: pathlib.Path) -> None:
    tool, schemas = ROOT / "tools/extract_schemas.py", ROOT / "klogtool/format/internal/schemas.json"
    done = subprocess.run([sys.executable, tool, home / "lib"], capture_output=True, text=True, check=True)
    assert done.stdout == schemas.read_text()


def damaged_records(decoder: str, *, variants: int) -> list[Record]:
    """The records of the golden file, whole and damaged: mostly the value, now and then the key."""
    rng, records = random.Random(f"{SEED} {decoder}"), []
    for case in GOLDEN:
        key, value = from_hex(case["key"]), from_hex(case["value"])
        if case["decoder"] != decoder or (key is None and "thrown" in case):
            continue
        for damaged in (value, *mutations(rng.randrange(2**32), value or b"", variants)):
            strange_key = key is not None and rng.random() < 0.1
            used = next(mutations(rng.randrange(2**32), key or b"")) if strange_key else key
            records.append(Record(len(records), 0, used, damaged))
    return records


@pytest.mark.parametrize("decoder", OPTIONS)
def test_decoders_of_damaged_records(asked: Kafka, decoder: str) -> None:
    records = damaged_records(decoder, variants=20)
    expected = ""
    for record in records:
        decoded = DECODERS[decoder][0](record.offset, record.key, record.value)
        pieces = (("key", decoded.key), ("payload", decoded.value))
        expected += "| " + " ".join(f"{name}: {text}" for name, text in pieces if text is not None) + "\n"
    args = ["--files", LOG, OPTIONS[decoder], "--skip-record-metadata"]
    printed = asked.dump({LOG: build_batch(records)}, args).stdout.decode().partition("isvalid: true\n")[2]
    assert printed.splitlines() == expected.splitlines()


@pytest.mark.slow
def test_control_records_until_kafka_dies_of_one(asked: Kafka) -> None:
    """The tool ends at the first record that it cannot print, so each is asked alone."""
    records = random.Random(SEED).sample(damaged_records("control", variants=20), 150)
    for record in records:
        batch = build_batch([record], is_control=True)
        answer = asked.dump({LOG: batch}, ["--files", LOG, "--deep-iteration"])
        text, thrown = printed_or_thrown(record)
        assert (answer.thrown and answer.thrown[0]) == thrown
        assert text is None or answer.stdout.decode().endswith(f"headerKeys: []{text}\n")


def printed_or_thrown(control: Record) -> tuple[str | None, str | None]:
    try:
        return control_text(control.key, control.value), None
    except KlogError as error:
        return None, error.kafka_class
