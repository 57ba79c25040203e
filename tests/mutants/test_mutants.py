"""Rules and survivors of `make mutants` are of this checkout; how a mutant is named, and which tests it needs."""

from __future__ import annotations

from running import ROOT

from mutants.orders import Watched
from mutants.rules import rules, survivors
from mutants.source import Source
from mutants.trying import executing


def test_each_rule_has_its_modules_and_tests() -> None:
    for name, rule in rules().items():
        paths = [*(ROOT / "klogtool" / module for module in rule.modules), *(ROOT / test for test in rule.tests)]
        assert rule.modules, name
        assert rule.tests, name
        assert [path for path in paths if not path.exists()] == [], name


def test_a_survivor_is_a_change_of_a_line_that_is_there() -> None:
    modules = {module for rule in rules().values() for module in rule.modules}
    for each in survivors():
        source = Source((ROOT / "klogtool" / each.file).read_text(encoding="utf-8"))
        assert (each.file in modules, source.has(each.function, each.before, each.nth)) == (True, True), each
        assert each.before != each.after, each
        assert each.why.endswith("."), each


TEXT = """LIMIT = 3

def is_kept(batch):
    if batch is None:
        return False
    if (
        batch.last_offset < LIMIT
        and batch.count
    ):
        return False
    return True

class Rule:
    def is_kept(self):
        return False
"""


def test_lines_of_one_text_have_names_of_their_own() -> None:
    places = [Source(TEXT).place_of(line) for line in (5, 10, 15)]
    assert [(place.function, place.nth) for place in places] == [("is_kept", 1), ("is_kept", 2), ("Rule.is_kept", 1)]
    assert Source(TEXT).has("is_kept", "return False", 2)
    assert not Source(TEXT).has("is_kept", "return False", 3)
    assert not Source(TEXT).has("", "return False", 1)


class Line:
    """Of a mutant, where it is."""

    file = "rule.py"

    def __init__(self, line: int) -> None:
        self.place = Source(TEXT).place_of(line)


def test_a_mutant_needs_the_tests_of_its_statement_the_fastest_case_of_each_first() -> None:
    seconds = {"t.py::slow": 3.0, "t.py::many[1]": 0.1, "t.py::many[2]": 0.2, "t.py::other": 0.3}
    watched = Watched(seconds, {"rule.py": {1: [], 4: list(seconds), 7: ["t.py::slow"], 15: ["t.py::other"]}})
    assert executing(Line(4), watched) == ["t.py::many[1]", "t.py::other", "t.py::slow", "t.py::many[2]"]
    assert executing(Line(8), watched) == ["t.py::slow"], "a condition over several lines"
    assert executing(Line(10), watched) == ["t.py::many[1]", "t.py::other", "t.py::slow", "t.py::many[2]"], (
        "not executed"
    )
    assert set(executing(Line(1), watched)) == set(seconds), "what is executed at import"
    assert executing(Line(1), Watched({}, {})) == []
