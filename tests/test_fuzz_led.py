"""What leads the fuzzers of kernels, and what is added up over their runs (tools/fuzz/led.py, sums.py)."""

from __future__ import annotations

import pathlib
import sys
from itertools import islice

import pytest
from running import ROOT

sys.path.append(str(ROOT / "tools/fuzz"))

import directories
import led
import sums

FUZZERS = ("directories.py", "kernels.py", "dump_log.py", "remote.py", "read_back.py")


class Ways(led.Ways):
    """Tells one new way for each number below 10."""

    def __init__(self) -> None:
        self.tried: led.Numbers = ()

    def take(self) -> int:
        """The ways of what was tried."""
        found, self.tried = sum(1 << number for number in {*self.tried} if number < 10), ()
        return found


def test_what_comes_nowhere_new_is_left_out_of_a_corpus() -> None:
    ways = Ways()
    led_by = led.Led(ways, 1, [(1, 2), (2,), (1,), (2, 1, 3), (3,)])
    for numbers in islice(led_by.walk(), 50):
        ways.tried = numbers
    assert sorted(led_by.kept[:3]) == [(1,), (2,), (3,)], "the shortest are tried first, and come everywhere"
    assert led_by.count == len(led_by.kept)


def test_new_inputs_go_on_from_those_that_came_somewhere_new() -> None:
    ways = Ways()
    led_by = led.Led(ways, 1, [(1,), (2,)])
    drawn = []
    for numbers in islice(led_by.walk(), 500):
        ways.tried = numbers
        drawn.append(numbers)
    assert {numbers[:1] for numbers in drawn if len(numbers) == 2} == {(1,), (2,)}
    assert max(map(len, drawn)) <= led.LONGEST
    assert led.Led(None, 1, [(1,)]).kept == []


def test_without_coverage_each_is_drawn_from_the_beginning() -> None:
    assert {len(numbers) for numbers in islice(led.Led(None, 1, [(1, 2)]).walk(), 100)} == {1}


def test_a_corpus_is_a_line_for_each_input(tmp_path: pathlib.Path) -> None:
    assert led.read_corpus(tmp_path / "none") == []
    led.write_corpus(tmp_path / "some", [(7, 8), (1,)])
    assert led.read_corpus(tmp_path / "some") == [(1,), (7, 8)]
    assert led.read_corpus(ROOT / "tools/fuzz/kernels.corpus")
    assert len(list(map(bytes.fromhex, directories.KEPT.read_text().split()))) <= directories.MOST_KEPT


def test_runs_add_up_in_the_docs(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "fuzzing.md"
    page.write_bytes((ROOT / "docs/fuzzing.md").read_bytes())
    for fuzzer in FUZZERS:
        before = cells(page, fuzzer)
        sums.add(page, fuzzer, inputs=1234, batches=10**9, found=1)
        added = [after - was for was, after in zip(before, cells(page, fuzzer), strict=True)]
        assert added == [1, 1234, 10**9, 1], fuzzer
    sums.add(None, "nobody.py", inputs=1)
    with pytest.raises(ValueError, match=r"no row for nobody\.py"):
        sums.add(page, "nobody.py", inputs=1)


def cells(page: pathlib.Path, fuzzer: str) -> list[int]:
    """The sums of a row, without its date."""
    (row,) = [line for line in page.read_text().splitlines() if line.startswith(f"| `{fuzzer}` | ")]
    return [int(cell.replace(",", "")) for cell in row.split("|")[2:-2]]
