"""What klogtool builds is what Kafka leaves: its recovery changes no byte, and its dump is ours."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from running import run_here

from klogtool.building import read_spec
from klogtool.disk.building import build

from .beside import module_beside
from .folders import files_of
from .kafka import Kafka, scratch_folder

HERE = pathlib.Path(__file__).resolve().parent
SPEC = HERE / "built.yaml"
NOW_MS = 1_714_565_000_000  # before its producers expire
pytestmark = [pytest.mark.kafka, pytest.mark.shared]


@pytest.mark.slow
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_of_kafka_changes_nothing(is_clean: bool) -> None:
    spec, scratch = read_spec(SPEC.read_bytes()), scratch_folder("klogtool-built-")
    try:
        build(spec, scratch / "logs")
        with module_beside("oracle/client.py").Oracle() as oracle:
            for partition in spec.partitions:
                folder = scratch / "logs" / f"{partition.topic}-0"
                before = files_of(folder)
                config = {name: str(value) for name, value in partition.config.items()}
                answer = oracle.ask("recover", dir=str(folder), config=config, now_ms=NOW_MS, clean=is_clean)
                assert not answer.get("truncated"), answer
                assert files_of(folder) == before
                assert len(before) >= 10
    finally:
        shutil.rmtree(scratch)


def test_kafka_dumps_it_as_klogtool_does(kafka: Kafka, tmp_path: pathlib.Path) -> None:
    build(read_spec(SPEC.read_bytes()), tmp_path / "logs")
    for folder in (tmp_path / "logs/built-0", tmp_path / "logs/old-0"):
        files = files_of(folder)
        for name in files:
            if name.endswith((".log", ".index", ".timeindex", ".txnindex", ".snapshot")):
                words = ["--files", name, "--print-data-log", "--index-sanity-check"][: 4 if "index" in name else 3]
                assert run_here(["dump-log", *words], folder).out == kafka.dump(files, words).stdout, name
