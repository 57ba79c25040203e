"""Each bug of the museum can still be brought back, and what finds it is there. `make museum` brings them back."""

from __future__ import annotations

import ast
import pathlib
import re
from collections import Counter
from functools import cache

import pytest
from running import ROOT

from museum.bugs import PAGE, Bug, bugs, last_found, with_table

LEAST = 30


@cache
def functions_of(file: pathlib.Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_bytes()).body if isinstance(node, ast.FunctionDef)}


def test_each_bug_still_applies_and_its_test_is_there() -> None:
    for bug in bugs():
        changed = bug.changed(ROOT)
        ast.parse(changed, bug.file)
        file, _, test = bug.test.partition("::")
        assert (ROOT / file).is_file(), bug.name
        assert not test or test.partition("[")[0] in functions_of(ROOT / file), bug.name


def test_a_bug_that_does_not_apply_any_more_is_named(tmp_path: pathlib.Path) -> None:
    bug = Bug("lost", "KAFKA-1", "Once upon a time.", "a.py", "old", "new", "tests/test_a.py::test_a")
    for text in ("", "old old"):
        (tmp_path / "a.py").write_text(text)
        with pytest.raises(ValueError, match=r"lost: its text is . times in a\.py"):
            bug.changed(tmp_path)


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(bugs()) >= LEAST
    assert max(Counter(bug.name for bug in bugs()).values()) == 1
    assert all(bug.story.endswith(".") for bug in bugs())


def test_the_page_has_each_bug_and_when_it_was_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page, "run `make docs`"
    assert last_found().keys() == {bug.name for bug in bugs()}
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", date) for date in last_found().values())
