"""The doctor's page: whole, small, safe, readable, and its answer reads back."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from diagnoses import FIRST_MS, HOSTILE, HOUR_MS, LOG_DIRS, STEP, make_diagnosis
from msgspec.structs import asdict, replace
from page_structure import ADDRESSES, Structure

from klogtool.broker.circumstances import Circumstances
from klogtool.doctor.answers import Ahead, Diagnosis, Prospect, Remedy, SegmentDrawn, Starts, What, Work
from klogtool.errors import AboveLimit, KlogError
from klogtool.escape import joined
from klogtool.format import codecs
from klogtool.json_rows import row_line
from klogtool.plans.question import Question
from klogtool.render.doctor import diagnosis_rows, diagnosis_text, headline
from klogtool.render.doctor_drawing import drawing, merged, offset_lane, time_lane
from klogtool.render.doctor_page import doctor_page
from klogtool.render.html_page import DARK, LIGHT, MOST_ROWS, SHAPES_ON, TEXT_ON
from klogtool.render.kept_answer import BEGIN, END, MOST_ANSWER_BYTES, PLAIN_BYTES, answer_block, read_answer
from klogtool.verify.findings import Severity

REMEDY = Remedy("retain", "/d", Question(**asdict(Circumstances(now_ms=0))))
NOW_MS = FIRST_MS + 100 * HOUR_MS
MOST_BYTES = 300_000  # of a page of a thousand partitions
SIZES = [(0, 0), (1, 0), (1, 1), (7, 5), (1000, 0), (1000, 3), (1000, 50), (1000, 1000)]
sizes = pytest.mark.parametrize(("partitions", "troubled"), SIZES)


def page_of(diagnosis: Diagnosis, status: int = 1) -> str:
    return doctor_page(diagnosis, list(diagnosis_rows(diagnosis)), status, NOW_MS)


def hostile(text: str) -> str:
    return f"{text}{HOSTILE}"


# The page.


@sizes
def test_a_page_is_whole_and_asks_for_nothing(partitions: int, troubled: int) -> None:
    page = page_of(make_diagnosis(partitions, troubled))
    structure = Structure(page)
    assert (structure.wrong, structure.repeated_ids, structure.broken_references) == ([], [], [])
    assert all(value.startswith("#") for value in structure.values(*ADDRESSES))
    assert re.findall(r"url\(([^)]*)\)", page) == ["#lost"]
    assert "@import" not in page
    assert not re.search(r"https?:|//[a-z]", page.partition(BEGIN)[0])
    assert [each for tag, each in structure.elements if tag == "script"] == [
        {"type": "application/json", "id": "answer"}
    ]
    assert not [name for _, each in structure.elements for name in each if name.startswith("on")]
    policies = [
        each["content"] for _, each in structure.elements if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


@sizes
def test_a_page_is_small(partitions: int, troubled: int) -> None:
    assert len(page_of(make_diagnosis(partitions, troubled)).encode()) < MOST_BYTES


@sizes
def test_a_page_has_one_first_heading_landmarks_and_headings_in_order(partitions: int, troubled: int) -> None:
    diagnosis = make_diagnosis(partitions, troubled)
    structure = Structure(page_of(diagnosis))
    levels = [int(tag[1]) for tag in structure.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert [structure.tags.count(name) for name in ("header", "main", "footer")] == [1, 1, 1]
    assert structure.texts["h1"] == [headline(diagnosis)]


def test_tables_have_headers_and_scroll_in_regions_that_the_keyboard_reaches() -> None:
    elements = Structure(page_of(make_diagnosis(30, 5))).elements
    assert all(each.get("scope") in ("col", "row") for tag, each in elements if tag == "th")
    regions = [each for tag, each in elements if each.get("role") == "region"]
    assert len(regions) == sum(tag == "table" for tag, _ in elements)
    assert all(each["tabindex"] == "0" and each["aria-label"] for each in regions)


def test_drawings_have_titles_and_descriptions() -> None:
    elements = Structure(page_of(make_diagnosis(30, 5))).elements
    pictures = [n for n, (tag, each) in enumerate(elements) if tag == "svg" and each.get("role") == "img"]
    assert len(pictures) == 5
    for n in pictures:
        names = [elements[n + 1][1]["id"], elements[n + 2][1]["id"]]
        assert [elements[n + 1][0], elements[n + 2][0]] == ["title", "desc"]
        assert elements[n][1]["aria-labelledby"] == " ".join(map(str, names))


@pytest.mark.slow
def test_every_partition_is_in_the_page_or_is_counted() -> None:
    diagnosis = make_diagnosis(1000, 100)
    told = "".join(Structure(page_of(diagnosis)).texts["th"])
    assert all(prospect.path.rpartition("/")[2] in told for prospect in diagnosis.prospects[100:])
    many = page_of(make_diagnosis(MOST_ROWS + 1234, 0))
    assert "<p>1,234 more are only in the answer inside.</p>" in many
    assert f"{MOST_ROWS + 1234:,} partitions without trouble" in many


@pytest.mark.parametrize(("starts", "word"), [(Starts.REFUSES, "Refuses to start"), (Starts.YES, "Starts")])
def test_the_verdict_is_a_word_and_not_only_a_colour(starts: Starts, word: str) -> None:
    assert f"{word}</b>" in page_of(replace(make_diagnosis(3, 0), starts=starts), 0)


def test_a_broker_that_starts_with_a_trouble_is_not_called_fine() -> None:
    assert "! Starts, with troubles</b>" in page_of(replace(make_diagnosis(3, 1), starts=Starts.YES))


# Contrast: WCAG 2.2, 1.4.3 and 1.4.11.


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("pairs", "least"), [(TEXT_ON, 4.5), (SHAPES_ON, 3.0)], ids=["text", "shapes"])
def test_colours_can_be_told_apart(
    palette: Mapping[str, str], pairs: Mapping[str, tuple[str, ...]], least: float
) -> None:
    weak = {(name, ground) for name, grounds in pairs.items() for ground in grounds
            if contrast(palette[name], palette[ground]) < least}  # fmt: skip
    assert not weak


def test_both_palettes_have_the_same_colours_and_the_page_has_no_other() -> None:
    assert set(LIGHT) == set(DARK)
    page = page_of(make_diagnosis(5, 5)).partition(BEGIN)[0]
    assert set(re.findall(r"#[0-9a-f]{6}\b", page)) == {*LIGHT.values(), *DARK.values()}
    assert set(re.findall(r"var\(--(\w+)\)", page)) <= set(LIGHT)


# Hostile text.


def test_text_from_a_disk_cannot_become_markup() -> None:
    plain, wild = make_diagnosis(12, 5), make_diagnosis(12, 5, of=hostile)
    assert Structure(page_of(wild)).tags == Structure(page_of(plain)).tags
    assert Structure(page_of(wild)).wrong == []
    page = page_of(wild)
    assert page.count("</script>") == 1
    assert page.isascii() or not set(page) & {"\x1b", "\u202e", "\udcff"}
    page.encode()


def test_a_path_with_the_mark_of_a_remark_does_not_cut_the_command() -> None:
    diagnosis = replace(make_diagnosis(3, 1), log_dirs=("/d/a    # b",))
    trouble = replace(diagnosis.troubles[0], options=(replace(diagnosis.troubles[0].options[0], remedies=(REMEDY,)),))
    page = page_of(replace(diagnosis, troubles=(trouble,)))
    command = next(text for text in Structure(page).texts["pre"] if "--fix" in text)
    assert command.startswith("klogtool doctor '/d/a    # b' --fix")
    assert command.endswith("--plan-out plan.json")


def test_an_answer_with_hostile_text_reads_back() -> None:
    diagnosis = make_diagnosis(12, 5, of=hostile)
    answer = read_answer(page_of(diagnosis).encode(), "page")
    assert answer.rows == tuple(map(row_line, diagnosis_rows(diagnosis)))
    assert answer.text == joined(diagnosis_text(diagnosis).split("\n"))


# The answer inside.


@sizes
def test_the_answer_reads_back(partitions: int, troubled: int) -> None:
    diagnosis = make_diagnosis(partitions, troubled)
    answer = read_answer(page_of(diagnosis, status=int(troubled > 0)).encode(), "page")
    assert answer.rows == tuple(map(row_line, diagnosis_rows(diagnosis)))
    assert answer.text == diagnosis_text(diagnosis)
    assert answer.status == int(troubled > 0)


def test_a_small_answer_is_json_that_anybody_can_read() -> None:
    diagnosis = make_diagnosis(3, 1)
    body = json.loads(page_of(diagnosis).partition(BEGIN)[2].partition(END)[0])["answer"]
    assert body["text"] == diagnosis_text(diagnosis)
    tables = [iter(zip(*table["values"], strict=True)) for table in body["tables"]]
    rows = [dict(zip(body["tables"][n]["columns"], next(tables[n]), strict=True)) for n in body["order"]]
    assert rows == [json.loads(row_line(row)) for row in diagnosis_rows(diagnosis)]


def block(answer: Any = None, **fields: Any) -> bytes:
    body = {"status": 0, "text": "", "tables": [], "order": []} if answer is None else answer
    return f"{BEGIN}{json.dumps({'format': 'klogtool doctor page 1', 'answer': body, **fields})}{END}".encode()


def body(**fields: Any) -> dict[str, Any]:
    return {"status": 0, "text": "", "tables": [], "order": [], **fields}


def compressed(data: bytes) -> str:
    return base64.b64encode(codecs.compress("zstd", data, magic=2)).decode()


BAD_PAGES = {
    "empty": b"",
    "another page": b"<!doctype html><p>hello",
    "not closed": BEGIN.encode() + b"{}",
    "no json": f"{BEGIN}hello{END}".encode(),
    "no utf-8": f"{BEGIN}".encode() + b'{"format":"\xff"}' + END.encode(),
    "nested": f"{BEGIN}{'[' * 100_000}{END}".encode(),
    "nested in a value": block(body(tables=[{"columns": ["a"], "values": [["X"]]}], order=[0])).replace(
        b'"X"', b"[" * 100_000
    ),
    "another format": block(format="klogtool doctor page 9"),
    "no answer": f'{BEGIN}{{"format":"klogtool doctor page 1"}}{END}'.encode(),
    "status": block(body(status=77)),
    "text is a number": block(body(text=7)),
    "order of a table that is not there": block(body(order=[0])),
    "order below zero": block(body(tables=[{"columns": ["a"], "values": [[1]]}], order=[-1])),
    "too few rows": block(body(tables=[{"columns": ["a"], "values": [[1]]}], order=[0, 0])),
    "columns of unlike length": block(body(tables=[{"columns": ["a", "b"], "values": [[1], []]}], order=[0])),
    "more names than columns": block(body(tables=[{"columns": ["a", "b"], "values": [[1]]}], order=[0])),
    "no base64": block(zstd="*"),
    "no zstd": block(zstd="aGVsbG8="),
    "no json in zstd": block(zstd=compressed(b"hello")),
}


@pytest.mark.parametrize("name", BAD_PAGES)
def test_a_page_that_is_not_ours_is_refused(name: str) -> None:
    with pytest.raises(KlogError) as caught:
        read_answer(BAD_PAGES[name], "page.html")
    assert caught.value.path == "page.html"
    assert not isinstance(caught.value, AboveLimit)


def test_an_answer_that_inflates_without_end_is_above_the_limit() -> None:
    with pytest.raises(AboveLimit):
        read_answer(block(zstd=compressed(bytes(MOST_ANSWER_BYTES + 1))), "page.html")


@pytest.mark.slow
def test_rows_that_repeat_a_long_name_without_end_are_above_the_limit() -> None:
    """A megabyte of a page, and gigabytes of rows."""
    table = {"columns": ["x" * (1 << 20)], "values": [[1] * 3000]}
    with pytest.raises(AboveLimit, match="rows of the answer"):
        read_answer(block(body(tables=[table], order=[0] * 3000)), "page.html")


def test_an_answer_that_nobody_could_read_back_is_not_written() -> None:
    with pytest.raises(AboveLimit):
        answer_block("x" * (MOST_ANSWER_BYTES + 1), [], 0)


def test_a_damaged_page_is_refused_or_says_something_else_but_does_nothing_else() -> None:
    chance = random.Random(7)
    for diagnosis in (make_diagnosis(4, 2), make_diagnosis(400, 30)):
        page = page_of(diagnosis).encode()
        start = page.index(BEGIN.encode())
        for _ in range(300):
            damaged = bytearray(page)
            damaged[chance.randrange(start, len(page))] ^= 1 << chance.randrange(8)
            try:
                read_answer(bytes(damaged[: chance.choice([len(page), chance.randrange(start, len(page))])]), "page")
            except KlogError:
                continue


def test_both_forms_of_the_block_are_tested() -> None:
    blocks = [answer_block("", list(diagnosis_rows(make_diagnosis(n, 0))), 0) for n in (3, 1000)]
    assert ['"zstd"' in text for text in blocks] == [False, True]
    assert len(blocks[0]) < PLAIN_BYTES


# Drawings.

CUT = Ahead("/d/t-0", What.TRUNCATED, "", 250, 399, lost_ms=40, kept_timestamp=1_060)
SEGMENTS = tuple(SegmentDrawn(n * 100, 10 + n, n * 100 + 100, 1_000 + n * 25, 1_020 + n * 25) for n in range(4))


def test_segments_are_cut_where_lost_offsets_begin() -> None:
    lane = offset_lane(SEGMENTS, [CUT])
    assert lane is not None
    assert (lane.low, lane.high) == (0, 400)
    assert [(span.start, span.end, span.kind) for span in lane.spans] == [
        (0, 100, "kept"),
        (100, 200, "kept"),
        (200, 250, "kept"),
        (250, 300, "lost"),
        (300, 400, "lost"),
    ]


def test_offsets_that_no_segment_has_are_drawn_too() -> None:
    gap = Ahead("/d/t-0", What.MISSING, "", 400, 449, severity=Severity.WARNING)
    lane = offset_lane(SEGMENTS, [gap])
    assert lane is not None
    assert [(span.start, span.end) for span in lane.spans if span.kind == "missing"] == [(400, 450)]
    assert lane.high == 450
    behind = offset_lane(SEGMENTS, [replace(CUT, last_offset=499)])
    assert behind is not None
    assert [(span.start, span.end) for span in behind.spans if span.kind == "lost"][-1] == (400, 500)


def test_time_shows_segments_over_the_time_that_is_lost() -> None:
    lane = time_lane([*SEGMENTS[:3], replace(SEGMENTS[3], last_timestamp=None)], [CUT])
    assert lane is not None
    assert [(span.start, span.end, span.kind) for span in lane.spans] == [
        (1_060, 1_100, "time"),
        (1_000, 1_020, "kept"),
        (1_025, 1_045, "kept"),
        (1_050, 1_070, "kept"),
        (1_075, 1_075, "lost"),
    ]
    assert time_lane([replace(one, first_timestamp=None) for one in SEGMENTS], []) is None


def test_a_file_with_trouble_marks_its_segment_only() -> None:
    stopping = Ahead(f"/d/t-0/{200:020d}.index", What.OFFLINE, "")
    lane = offset_lane(SEGMENTS, [stopping])
    assert lane is not None
    assert [(span.start, span.end) for span in lane.spans if span.kind == "file"] == [(200, 300)]


def test_a_torn_end_marks_the_last_segment() -> None:
    lane = offset_lane(SEGMENTS, [replace(CUT, first_offset=None, last_offset=None)])
    assert lane is not None
    assert [(span.start, span.end) for span in lane.spans if span.kind == "file"] == [(300, 400)]


def test_many_segments_become_few_and_nothing_is_left_out() -> None:
    few = merged(SEGMENTS, 2)
    assert [(one.base_offset, one.end_offset, one.bytes, one.segments) for one in few] == [
        (0, 200, 21, 2),
        (200, 400, 25, 2),
    ]
    assert (few[0].first_timestamp, few[-1].last_timestamp) == (1_000, 1_095)
    assert merged(SEGMENTS, 4) == SEGMENTS


@pytest.mark.parametrize("offset", [0, 1, (1 << 63) - 1])
@pytest.mark.parametrize("timestamp", [None, 0, 1, (1 << 63) - 1])
def test_a_drawing_stays_in_its_box(offset: int, timestamp: int | None) -> None:
    one = SegmentDrawn(offset, 0, None, timestamp, None)
    point = Ahead("/d/t-0", What.TRUNCATED, "", 5, (1 << 63) - 1, lost_ms=1 << 63, kept_timestamp=0)
    for segments, points in (([one], []), ([], [point]), ([one, one], [point])):
        figure = drawing(segments, Prospect("/d/t-0", Work.CLEAN, log_end_offset=7), points, 1)
        places = re.findall(r'x="([^"]*)%" width="([^"]*)%"', figure)
        assert places
        assert all(float(x) >= 0 and float(x) + float(width) < 100.1 for x, width in places)


def test_the_diagnoses_of_these_tests_are_what_they_seem() -> None:
    diagnosis = make_diagnosis(10, 5)
    assert diagnosis.lost_records == 4 * 5 * STEP
    assert {prospect.path.rpartition("/")[0] for prospect in diagnosis.prospects} == set(LOG_DIRS)
