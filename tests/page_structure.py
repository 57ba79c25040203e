"""A page of HTML as its structure: elements in their order, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "input", "link", "hr"}
# HTML lets these end where one of the others begins, or where their parent ends.
ENDED_BY = {"td": {"td", "th", "tr"}, "th": {"td", "th", "tr"}, "tr": {"tr"}}
ADDRESSES = ("src", "href", "xlink:href", "data", "action", "poster", "srcset", "background", "formaction", "ping")
REFERENCES = ("aria-labelledby", "aria-describedby")


class Structure(HTMLParser):
    """elements: tags and attributes. wrong: tags that do not balance. texts: by tag, all text directly in it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.wrong += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        while self._open and tag in ENDED_BY.get(self._open[-1], ()):
            self._open.pop()
        if len(dict(attrs)) != len(attrs):
            self.wrong.append(f"{tag} has an attribute twice")
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open[-1] in ENDED_BY and self._open[-1] != tag:
            self._open.pop()
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data

    @property
    def tags(self) -> list[str]:
        """Names of all elements, in their order."""
        return [tag for tag, _ in self.elements]

    def values(self, *names: str) -> list[str]:
        """Values of these attributes of all elements."""
        return [str(value) for _, attributes in self.elements for name, value in attributes.items() if name in names]

    @property
    def repeated_ids(self) -> list[str]:
        """Ids that two elements have."""
        return [name for name, count in Counter(self.values("id")).items() if count > 1]

    @property
    def broken_references(self) -> list[str]:
        """Ids that are referred to, and that no element has."""
        named = [name for value in self.values(*REFERENCES) for name in value.split()]
        named += [value[1:] for value in self.values("href") if value.startswith("#")]
        return [name for name in named if name not in set(self.values("id"))]
