"""The bugs of the museum as bugs.toml has them, and what each does to a checkout."""

from __future__ import annotations

import pathlib
import re
import tomllib

import msgspec
from msgspec import Struct

HERE = pathlib.Path(__file__).parent
BUGS, FOUND = HERE / "bugs.toml", HERE / "found.json"
PAGE = HERE.parents[1] / "docs/museum.md"


class Bug(Struct, frozen=True, forbid_unknown_fields=True):
    """A bug that was real. source: where it was first. old: text of a file, which `new` replaces to bring the bug back.
    test: what finds it."""

    name: str
    source: str
    story: str
    file: str
    old: str
    new: str
    test: str

    def changed(self, root: pathlib.Path) -> str:
        """Return the file with the bug. Raises ValueError, with the bug's name, if the text is not there once."""
        text = (root / self.file).read_text(encoding="utf-8")
        count = text.count(self.old)
        if count != 1 or self.old == self.new:
            raise ValueError(f"{self.name}: its text is {count} times in {self.file}: write its change anew")
        return text.replace(self.old, self.new)


def bugs() -> list[Bug]:
    """All bugs, in the order of bugs.toml."""
    return msgspec.convert(tomllib.loads(BUGS.read_text(encoding="utf-8"))["bug"], list[Bug])


def last_found() -> dict[str, str]:
    """Return when each bug was last found again, as a date, by its name."""
    return msgspec.json.decode(FOUND.read_bytes(), type=dict[str, str])


BEGIN, END = "<!-- bugs -->\n", "<!-- end -->"
KAFKA, URL, COMMIT = re.compile(r"KAFKA-\d+"), re.compile(r"https://\S+"), re.compile(r"[0-9a-f]{8}")


def with_table(page: str) -> str:
    """Return docs/museum.md with the table of the bugs as it is now."""
    before, _, rest = page.partition(BEGIN)
    known = last_found()
    rows = (
        f"| `{bug.name}` | {_source(bug)} | {bug.story} | `{bug.test.rpartition('::')[2].partition('[')[0]}` | "
        f"{known.get(bug.name, '')} |"
        for bug in bugs()
    )
    head = "| bug | where it was | what went wrong | the test | found again |\n|---|---|---|---|---|\n"
    return before + BEGIN + head + "".join(f"{row}\n" for row in rows) + END + rest.partition(END)[2]


def _source(bug: Bug) -> str:
    if KAFKA.fullmatch(bug.source):
        return f"[{bug.source}](https://issues.apache.org/jira/browse/{bug.source})"
    return f"klogtool, {bug.source}" if COMMIT.fullmatch(bug.source) else URL.sub(r"<\g<0>>", bug.source)
