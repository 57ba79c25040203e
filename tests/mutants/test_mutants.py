"""The rules and the survivors of `make mutants` are of this checkout."""

from __future__ import annotations

from running import ROOT

from mutants.rules import rules, survivors


def test_each_rule_has_its_modules_and_tests() -> None:
    for name, rule in rules().items():
        paths = [*(ROOT / "klogtool" / module for module in rule.modules), *(ROOT / test for test in rule.tests)]
        assert rule.modules, name
        assert rule.tests, name
        assert [path for path in paths if not path.exists()] == [], name


def test_a_survivor_is_a_change_of_a_line_that_is_there() -> None:
    modules = {module for rule in rules().values() for module in rule.modules}
    for each in survivors():
        lines = [line.strip() for line in (ROOT / "klogtool" / each.file).read_text(encoding="utf-8").splitlines()]
        assert (each.file in modules, each.before in lines) == (True, True), each
        assert each.before != each.after, each
        assert each.why.endswith("."), each
