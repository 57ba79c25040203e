"""diff with formats: the records that differ, decoded; without, as before."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from raw_batches import build_batch
from running import ROOT, run_here

from klogtool.copies import differing
from klogtool.copies.differing import find_differences
from klogtool.format.batch import Header, Record
from klogtool.log.partition import Partition

Records = dict[int, Record]


def copy_of(folder: pathlib.Path, records: Records, *, at_once: int = 3, codec: str = "none") -> str:
    """A partition dir with these records."""
    place = folder / "orders-0"
    place.mkdir(parents=True)
    kept = list(records.values())
    batches = [
        build_batch(kept[n : n + at_once], codec=codec, partition_leader_epoch=0) for n in range(0, len(kept), at_once)
    ]
    (place / f"{kept[0].offset:020d}.log").write_bytes(b"".join(batches))
    return str(place)


def numbers(count: int) -> Records:
    return {n: Record(n, 1000 + n, b"k%d" % n, n.to_bytes(8, "big")) for n in range(count)}


def with_changes(records: Records, *changed: Record, without: tuple[int, ...] = ()) -> Records:
    found = records | {record.offset: record for record in changed}
    return {offset: record for offset, record in sorted(found.items()) if offset not in without}


def run(*args: object) -> Any:
    return run_here([str(arg) for arg in args], ROOT)


def rows_of(*args: object) -> list[Any]:
    (answer,) = (json.loads(line) for line in run("diff", *args, "--format", "json").out.splitlines()[1:])
    return [stretch for stretch in answer["stretches"] if stretch["kind"] != "after-a"]


@pytest.mark.parametrize("deep", [True, False])
def test_only_records_that_differ_are_there(deep: bool, tmp_path: pathlib.Path) -> None:
    a = numbers(12)
    b = with_changes(a, Record(4, 1004, b"k4", (99).to_bytes(8, "big")), Record(5, 1005, None, b"?"))
    ways = ("--value-format", "long", *(["--deep"] if deep else []))
    (stretch,) = rows_of(copy_of(tmp_path / "a", a), copy_of(tmp_path / "b", b, codec="gzip"), *ways)[-1:]
    found = [
        (row["offset"], row["a"]["value_decoded"].get("value"), row["b"]["value_decoded"]) for row in stretch["records"]
    ]
    assert found == [
        (4, 4, {"format": "long", "value": 99}),
        (5, 5, {"format": "long", "error": "1 bytes, not 8", "hex": "3f"}),
    ]
    assert stretch["records"][1]["b"]["key"] is None
    assert "key_decoded" not in stretch["records"][1]["b"]
    assert stretch["records_complete"] is True


def test_text_has_a_line_for_each_copy(tmp_path: pathlib.Path) -> None:
    a = numbers(6)
    b = with_changes(a, Record(2, 1002, b"k\n2", None, (Header(b"h", b"\xff"),)), without=(4,))
    done = run("diff", copy_of(tmp_path / "a", a), copy_of(tmp_path / "b", b), "--deep", "--value-format", "long")
    lines = done.out.decode().splitlines()
    at = lines.index("  offset 2: differ")
    assert lines[at + 1 : at + 5] == [
        "    A offset: 2 timestamp: 1002 headers: [] key: k2 payload: 2",
        r'    B offset: 2 timestamp: 1002 headers: [["h",{"base64":"/w=="}]] key: k\n2 payload: null',
        "  offset 4: only in A",
        "    A offset: 4 timestamp: 1004 key: k4 payload: 4",
    ]
    assert done.status == 1


def test_without_a_format_there_are_no_records(tmp_path: pathlib.Path) -> None:
    a = numbers(6)
    both = copy_of(tmp_path / "a", a), copy_of(tmp_path / "b", with_changes(a, Record(2, 0, b"x", b"y")))
    assert all("records" not in stretch for stretch in rows_of(*both, "--deep"))
    assert b"payload" not in run("diff", *both, "--deep").out


def test_a_long_list_is_cut(tmp_path: pathlib.Path) -> None:
    a = numbers(30)
    b = {n: Record(n, 0, b"", b"") for n in a}
    both = copy_of(tmp_path / "a", a), copy_of(tmp_path / "b", b)
    (stretch,) = rows_of(*both, "--deep", "--key-format", "hex")
    assert (len(stretch["records"]), stretch["records_complete"]) == (10, False)
    assert "    and more, not shown" in run("diff", *both, "--deep", "--key-format", "hex").out.decode().splitlines()


def test_damage_ends_the_list(tmp_path: pathlib.Path) -> None:
    a = numbers(12)
    b = with_changes(a, *(Record(n, 0, b"", b"") for n in a))
    both = copy_of(tmp_path / "a", a), copy_of(tmp_path / "b", b)
    log = pathlib.Path(both[1]) / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 62] ^= 0xFF  # the length of a record
    log.write_bytes(data)
    assert not find_differences(*both, 0, 11).is_all
    assert "Traceback" not in run("diff", *both, "--value-format", "hex").err


def test_a_stretch_is_found_by_the_index_and_without_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = numbers(300)
    b = with_changes(a, Record(250, 0, b"", b""))
    both = copy_of(tmp_path / "a", a), copy_of(tmp_path / "b", b)
    without = find_differences(*both, 240, 260)
    batches = [(batch.last_offset, batch.position) for batch in Partition(both[0]).segments[0].batches()][1:80]
    right = b"".join(offset.to_bytes(4, "big") + at.to_bytes(4, "big") for offset, at in batches)
    wrong = b"".join(offset.to_bytes(4, "big") + (at + 7).to_bytes(4, "big") for offset, at in batches)
    starts = []
    own = differing._start_of
    monkeypatch.setattr(differing, "_start_of", lambda *which: starts.append(own(*which)) or starts[-1])
    for index in (right, wrong, b"x"):
        for place in both:
            (pathlib.Path(place) / f"{0:020d}.index").write_bytes(index)
        assert find_differences(*both, 240, 260) == without
    assert [record.offset for record in without.records] == [250]
    assert [start > 0 for start in starts] == [True, True, False, False, False, False]
