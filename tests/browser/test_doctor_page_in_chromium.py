"""The doctor's page in a browser: no barrier by axe, no request, no sideways scrolling, readable on paper."""

from __future__ import annotations

import pathlib

import pytest
from diagnoses import HOSTILE, make_diagnosis
from msgspec.structs import replace

from klogtool.doctor.answers import Diagnosis, Starts
from klogtool.render.doctor import diagnosis_rows
from klogtool.render.doctor_page import doctor_page

from .chromium import Chromium

NOW_MS = 1_795_443_655_671
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
PAGES = {
    "loses data": make_diagnosis(20, 5),
    "fine": make_diagnosis(12, 0),
    "refuses": replace(make_diagnosis(2, 2), starts=Starts.REFUSES),
    "hostile": make_diagnosis(4, 2, of=lambda text: text + HOSTILE),
    "long names": make_diagnosis(4, 2, of=lambda text: text + "x" * 230),
}


def written(folder: pathlib.Path, diagnosis: Diagnosis) -> pathlib.Path:
    page = folder / "page.html"
    page.write_text(doctor_page(diagnosis, list(diagnosis_rows(diagnosis)), 1, NOW_MS), encoding="utf-8")
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(chromium: Chromium, tmp_path: pathlib.Path, name: str, width: int, dark: bool) -> None:
    chromium.open(written(tmp_path, PAGES[name]), width=width, dark=dark)
    chromium.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert chromium.violations(*RULES) == []


@pytest.mark.parametrize("width", [320, 360, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_not_scroll_sideways(chromium: Chromium, tmp_path: pathlib.Path, name: str, width: int) -> None:
    chromium.open(written(tmp_path, PAGES[name]), width=width)
    assert chromium.evaluate("[document.documentElement.scrollWidth, window.innerWidth]") == [width, width]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_for_nothing_and_runs_nothing(chromium: Chromium, tmp_path: pathlib.Path, name: str) -> None:
    page = written(tmp_path, PAGES[name])
    chromium.open(page, width=1280)
    assert chromium.requests() == [page.as_uri()]
    assert [event for event in chromium.events if event["method"].startswith(("Log.", "Runtime.exception"))] == []
    assert (
        chromium.evaluate("document.querySelectorAll('script:not([type=\"application/json\"]),img,link').length") == 0
    )


def test_a_page_of_many_partitions_has_no_barrier_either(chromium: Chromium, tmp_path: pathlib.Path) -> None:
    chromium.open(written(tmp_path, make_diagnosis(200, 30)), width=360)
    assert chromium.violations(*RULES) == []


def test_paper_is_white_whatever_the_screen_is(chromium: Chromium, tmp_path: pathlib.Path) -> None:
    chromium.open(written(tmp_path, PAGES["loses data"]), width=1280, dark=True, print_=True)
    assert chromium.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert chromium.violations("wcag2a", "wcag2aa") == []
    assert chromium.pdf().startswith(b"%PDF")


def test_axe_would_find_something(chromium: Chromium, tmp_path: pathlib.Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text('<!doctype html><html><title>t</title><p style="color:#999;background:#fff">pale<img src="x.png">')
    chromium.open(bad, width=360)
    found = {line.partition(":")[0] for line in chromium.violations(*RULES)}
    assert {"color-contrast", "image-alt", "html-has-lang"} <= found
    assert len(chromium.requests()) == 2
