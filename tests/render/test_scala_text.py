"""kafka-dump-log as releases before 4.3 had it, in Scala: the few places in which its text differs."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from raw_batches import build_batch
from readers import Reader
from running import FIXTURES, ROOT, run_here
from vectors import BATCH, BATCH_WITH_HEADERS

from klogtool.format.batch import Record
from klogtool.render.index_text import Reports

STEM = "00000000000000000000"


def lines(path: pathlib.Path, release: str, *more: str) -> list[str]:
    told = run_here(["dump-log", str(path), "--kafka", release, *more], ROOT)
    return told.out.decode().splitlines()


def differing(path: pathlib.Path, *more: str) -> list[tuple[str, str]]:
    """Lines of the tool in Scala beside those of the tool in Java, where they differ."""
    both = zip(lines(path, "3.9.2", *more), lines(path, "4.3.1", *more), strict=True)
    return [(scala, java) for scala, java in both if scala != java]


def test_the_checksum_of_an_old_message_has_a_brace(reader: Reader) -> None:
    log = FIXTURES / "magic-0/logdir/create-0" / f"{STEM}.log"
    with reader.reading():
        found = differing(log, "--deep-iteration")
    records = [line for line in lines(log, "4.3.1", "--deep-iteration") if line.startswith("|")]
    assert found == [(f"{line}}}", line) for line in records]


def test_a_payload_without_a_key_has_no_bar(tmp_path: pathlib.Path, reader: Reader) -> None:
    log = tmp_path / f"{STEM}.log"
    log.write_bytes(build_batch([Record(0, 5, None, b"v"), Record(1, 5, b"k", b"v")]))
    with reader.reading():
        found = differing(log, "--print-data-log", "--skip-record-metadata")
        assert found == [(" payload: v", "| payload: v")]
        assert "| key: k payload: v" in lines(log, "3.9.2", "--print-data-log", "--skip-record-metadata")
        assert differing(log, "--print-data-log") == []


def test_a_producer_without_batches_has_a_blank_at_its_end() -> None:
    snapshots = (FIXTURES / "transactions/logdir/t-0").glob("*.snapshot")
    found = [pair for path in snapshots for pair in differing(path)]
    assert found
    assert all(scala == f"{java} " for scala, java in found)


@pytest.mark.parametrize(("release", "has_brace"), [("4.2.0", True), ("4.4.0", False)])
def test_the_tool_was_in_scala_until_4_2(release: str, has_brace: bool) -> None:
    log = FIXTURES / "magic-0/logdir/create-0" / f"{STEM}.log"
    assert any(line.endswith("}") for line in lines(log, release, "--deep-iteration")) is has_brace


def test_gaps_are_told_from_the_last_to_the_first(tmp_path: pathlib.Path) -> None:
    (tmp_path / f"{STEM}.log").write_bytes(BATCH_WITH_HEADERS.data + BATCH.data)
    told = run_here(["dump-log", str(tmp_path / f"{STEM}.log"), "--deep-iteration", "--kafka", "3.9.2"], ROOT)
    assert "-1 is followed by" not in told.err
    assert "is followed by 0" in told.err
    reports = Reports(as_scala=True)
    reports.gaps["f"] = {-1: 3, 4: 7, 9: 12}
    assert list(reports.lines()) == ["Non-consecutive offsets in f", "  9 is followed by 12", "  4 is followed by 7"]


def test_a_gap_before_the_first_record_only_is_not_told() -> None:
    reports = Reports(as_scala=True)
    reports.gaps["f"] = {-1: 3}
    assert list(reports.lines()) == []


def test_offsets_that_are_not_found_have_no_file() -> None:
    reports = Reports(as_scala=True)
    reports.offsets_not_found["f"] = [(3, -1)]
    assert list(reports.lines()) == [
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 3, found log offset: -1",
    ]


def test_json_does_not_depend_on_it(tmp_path: pathlib.Path) -> None:
    log = tmp_path / f"{STEM}.log"
    shutil.copy(FIXTURES / "magic-0/logdir/create-0" / log.name, log)
    assert differing(log, "--format", "json") == []
