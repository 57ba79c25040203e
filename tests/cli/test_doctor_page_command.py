"""klogtool doctor --html and --from: what was printed is printed again, and nothing else is taken for a page."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest
from page_structure import Structure
from running import FIXTURES, Done

from klogtool.render.kept_answer import MOST_PAGE_BYTES

Run = Callable[..., Done]
HURT, SOUND = FIXTURES / "killed-mid-append/logdir", FIXTURES / "compacted/result-2"
FORMS = pytest.mark.parametrize("form", ["text", "json"])


@FORMS
@pytest.mark.parametrize(("log_dir", "status"), [(HURT, 1), (SOUND, 0)], ids=["hurt", "sound"])
def test_a_page_prints_what_was_printed(
    klogtool: Run, tmp_path: pathlib.Path, log_dir: pathlib.Path, status: int, form: str
) -> None:
    page = tmp_path / "page.html"
    first = klogtool("doctor", log_dir, "--html", page, "--format", form)
    again = klogtool("doctor", "--from", page, "--format", form)
    assert (again.status, again.out) == (first.status, first.out)
    assert first.status == status
    assert again.told == ""


def test_the_page_draws_the_segments_of_partitions_in_trouble_only(klogtool: Run, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    klogtool("doctor", HURT, "--html", page)
    texts = Structure(page.read_text(encoding="utf-8")).texts
    assert texts["title"][1:] == ["Segments of flip-bit-0", "Segments of torn-tail-0"]
    assert texts["desc"][0].startswith("4 segments, offsets 0 to 71; from 2023-11-14T22:13:20.728Z to 20")
    for told in ("offsets 48 to 70 are lost by the start", "offset 47 is missing already", "ends at offset 47."):
        assert told in texts["desc"][0]
    assert texts["h3"] == ["flip-bit-0", "torn-tail-0"]
    told = re.findall(
        r"loses offsets \d+ to \d+|<td class=t>lost\b|damaged end is cut", page.read_text(encoding="utf-8")
    )
    assert told == ["loses offsets 48 to 50", "<td class=t>lost", "damaged end is cut"]


def test_a_quick_page_has_no_drawings(klogtool: Run, tmp_path: pathlib.Path) -> None:
    page, other = tmp_path / "page.html", FIXTURES / "metadata/logdir"  # whose cluster does not know these topics
    assert klogtool("doctor", HURT, other, "--quick", "--html", page).status == 1
    structure = Structure(page.read_text(encoding="utf-8"))
    assert "figure" not in structure.tags
    assert "flip-bit-0" in structure.texts["h3"]


def test_an_existing_file_is_not_replaced(klogtool: Run, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    done = klogtool("doctor", SOUND, "--html", page)
    assert done.status == 3
    assert "exists" in done.err
    assert page.read_text() == "mine"
    assert done.out == b""


def test_a_page_that_cannot_be_written_does_not_cost_the_answer(klogtool: Run, tmp_path: pathlib.Path) -> None:
    done = klogtool("doctor", SOUND, "--html", tmp_path / "missing" / "page.html")
    assert done.status == 2
    assert done.out.startswith(b"A broker 4.3.1 would start")


def test_no_page_is_written_into_a_log_dir(klogtool: Run) -> None:
    done = klogtool("doctor", SOUND, "--html", SOUND / "page.html")
    assert done.status == 3
    assert not (SOUND / "page.html").exists()


BAD = {"empty": b"", "another": b"<p>hello</p>", "binary": bytes(range(256))}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_page_is_named(klogtool: Run, tmp_path: pathlib.Path, name: str) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(BAD[name])
    done = klogtool("doctor", "--from", page)
    assert (done.status, done.out) == (2, b"")
    assert done.told == f"klogtool: {page}: not a page that klogtool doctor --html wrote\n"


def test_a_missing_page_a_folder_and_a_huge_file_are_refused(klogtool: Run, tmp_path: pathlib.Path) -> None:
    huge = tmp_path / "huge.html"
    with huge.open("wb") as file:
        file.truncate(MOST_PAGE_BYTES + 1)
    assert klogtool("doctor", "--from", tmp_path / "missing.html").status == 2
    assert klogtool("doctor", "--from", tmp_path).status == 4
    assert klogtool("doctor", "--from", huge).status == 4


@pytest.mark.parametrize("more", [("--kafka", "3.9.2"), ("--controller", SOUND), ("--remote", "store"), ("--quick",)])
def test_a_kept_answer_is_no_answer_to_another_question(
    klogtool: Run, tmp_path: pathlib.Path, more: tuple[str | pathlib.Path, ...]
) -> None:
    page = tmp_path / "page.html"
    assert klogtool("doctor", SOUND, "--html", page).status == 0
    done = klogtool("doctor", "--from", page, *more)
    assert (done.status, done.out) == (2, b"")
    assert "--from goes with --format only." in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (SOUND, "--from", "page.html"),
        ("--from", "page.html", "--html", "other.html"),
        ("--from", "page.html", "--fix"),
        (SOUND, "--fix", "--html", "page.html"),
    ],
    ids=["nothing", "from and a log dir", "from and html", "from and fix", "fix and html"],
)
def test_options_that_do_not_go_together(klogtool: Run, arguments: tuple[str | pathlib.Path, ...]) -> None:
    done = klogtool("doctor", *arguments)
    assert (done.status, done.out) == (2, b"")
    assert "Traceback" not in done.err
