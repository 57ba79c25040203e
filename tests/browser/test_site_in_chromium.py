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
SHARES = 8
OWN = ("file:", "data:", "blob:")
# The scripts of the page choose the colours after it is loaded.
IS_SCHEME = (
    "new Promise(done => { let tries = 0; const look = () => { "
    "if (document.body.getAttribute('data-md-color-scheme') == '%s') done(true); "
    "else if (++tries > 100) done(false); else setTimeout(look, 50) }; look() })"
)
ADDRESSES = "[...document.querySelectorAll('a[href],img[src],link[href],script[src]')].map(e => e.href || e.src)"


def pages() -> list[pathlib.Path]:
    return [path for path in sorted(HTML.rglob("*.html")) if path.name != "404.html"]


@pytest.fixture(scope="module")
def site() -> list[pathlib.Path]:
    found = pages()
    assert len(found) > 80, "run `make site`"
    return found


def of_article(page: pathlib.Path) -> str:
    """Where axe looks: header and navigation come from one template, so they are looked at on the index alone."""
    return "document" if page == HTML / "index.html" else "document.querySelector('article')"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("share", range(SHARES))
def test_each_page(chromium: Chromium, site: list[pathlib.Path], share: int) -> None:
    """Narrow, wide and dark: no barrier, nothing wider than the window, nothing from elsewhere, no dead link."""
    found = [trouble for page in site[share::SHARES] for trouble in troubles(chromium, page)]
    assert found == []


def test_the_first_page_with_header_and_navigation(chromium: Chromium, site: list[pathlib.Path]) -> None:
    assert list(troubles(chromium, HTML / "index.html")) == []


def troubles(chromium: Chromium, page: pathlib.Path) -> Iterator[str]:
    """All that is wrong with a page. It is opened once for each colour; what it is shown in changes under it."""
    name = page.relative_to(HTML)
    chromium.open(page, width=WIDTHS[0])
    if not chromium.evaluate(IS_SCHEME % "default"):
        yield f"{name}: is not light"
    for width in WIDTHS:
        chromium.resize(width)
        yield from (f"{name}, {width}: {each}" for each in chromium.violations(*RULES, within=of_article(page)))
        sizes = chromium.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        if sizes != [width, width]:
            yield f"{name}: is {sizes[0]} wide in a window of {width}"
    chromium.open(page, width=1280, dark=True)
    if not chromium.evaluate(IS_SCHEME % "slate"):
        yield f"{name}: is not dark"
    yield from (f"{name}, dark: {each}" for each in chromium.violations("color-contrast", within=of_article(page)))
    yield from (f"{name} asks for {url}" for url in chromium.requests() if not url.startswith(OWN))
    yield from (f"{name}: {each}" for each in chromium.events if each["method"].startswith("Runtime.exception"))
    for address in chromium.evaluate(ADDRESSES):
        parts = urllib.parse.urlsplit(address)
        if parts.scheme == "file" and not pathlib.Path(urllib.parse.unquote(parts.path)).is_file():
            yield f"{name} links to {address}"


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
