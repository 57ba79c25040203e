"""The site in a browser: no barrier by axe, nothing fetched, no sideways scrolling, no link that leads nowhere."""

from __future__ import annotations

import pathlib
import urllib.parse
from collections.abc import Iterator

import pytest
from running import ROOT

from .chromium import Chromium

HTML = ROOT / ".work/site/html"
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
WIDTHS = (360, 1280)
ADDRESSES = "[...document.querySelectorAll('a[href],img[src],link[href],script[src]')].map(e => e.href || e.src)"


def pages() -> list[pathlib.Path]:
    return [path for path in sorted(HTML.rglob("*.html")) if path.name != "404.html"]


@pytest.fixture(scope="module")
def site() -> list[pathlib.Path]:
    found = pages()
    assert len(found) > 80, "run `make site`"
    return found


def barriers(chromium: Chromium, pages: list[pathlib.Path], width: int, dark: bool) -> Iterator[str]:
    chromium.open(pages[0], width=width, dark=dark)
    chromium.evaluate("localStorage.clear()")  # has the colours that were chosen
    for page in pages:
        chromium.open(page, width=width, dark=dark)
        yield from (f"{page.relative_to(HTML)}: {each}" for each in chromium.violations(*RULES))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, False), (1280, True)])
def test_axe_finds_nothing_on_any_page(chromium: Chromium, site: list[pathlib.Path], width: int, dark: bool) -> None:
    assert list(barriers(chromium, site, width, dark)) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_scrolls_sideways(chromium: Chromium, site: list[pathlib.Path], width: int) -> None:
    wide = {}
    for page in site:
        chromium.open(page, width=width)
        found = chromium.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        if found != [width, width]:
            wide[page.name] = found
    assert wide == {}


@pytest.mark.timeout(900)
def test_a_page_fetches_nothing_from_elsewhere_and_its_links_lead_somewhere(
    chromium: Chromium, site: list[pathlib.Path]
) -> None:
    for page in site:
        chromium.open(page, width=1280)
        assert [url for url in chromium.requests() if not url.startswith(("file:", "data:", "blob:"))] == []
        assert [event for event in chromium.events if event["method"].startswith("Runtime.exception")] == []
        for address in chromium.evaluate(ADDRESSES):
            parts = urllib.parse.urlsplit(address)
            if parts.scheme == "file":
                assert pathlib.Path(urllib.parse.unquote(parts.path)).is_file(), f"{page.name} links to {address}"


def test_the_search_finds_a_command_without_a_server(chromium: Chromium, site: list[pathlib.Path]) -> None:
    chromium.open(HTML / "index.html", width=1280)
    chromium.evaluate(
        "const q = document.querySelector('[data-md-component=search-query]');"
        "q.focus(); q.value = 'salvage'; q.dispatchEvent(new KeyboardEvent('keyup')); 0"
    )
    waiting = (
        "new Promise(done => { const look = () => { const n = document.querySelectorAll('.md-search-result__item')"
    )
    waiting += ".length; n ? done(n) : setTimeout(look, 100) }; look() })"
    assert chromium.evaluate(waiting) > 0
