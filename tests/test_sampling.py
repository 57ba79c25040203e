"""Which cases run when: each test always runs, one seed draws the same cases, the night runs what a change left out."""

from __future__ import annotations

import pathlib
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import sampling


class Case:
    """As much of pytest's item as a choice looks at."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid, self.marks = nodeid, {mark.name: mark.mark for mark in marks}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.marks.get(name)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks[mark.name] = mark.mark


def cases() -> list[Any]:
    """Tests with one to forty cases: plain, slow, or with a number of their own."""
    rng = random.Random(1)
    kinds = [(), (), (pytest.mark.slow,), (pytest.mark.some(5),), (pytest.mark.slow, pytest.mark.some(3))]
    return [
        Case(f"test_{n}.py::test[{case}]", *marks)
        for n in range(60)
        for marks in [rng.choice(kinds)]
        for case in range(rng.randint(1, 40))
    ]


def run(
    monkeypatch: pytest.MonkeyPatch, seed: str, *, most: int | None, night: bool = False, sample: Any = None
) -> Any:
    """The cases that a run with this seed has."""
    monkeypatch.setenv(sampling.SEED, seed)
    monkeypatch.setenv("KLOGTOOL_NIGHTLY", str(int(night)))
    items = cases()
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(option=SimpleNamespace(most=most, sample=sample), hook=hook)
    sampling.leave_to_the_night(config, items)
    sampling.keep_sample(config, items)
    return items


def names(items: list[Any]) -> set[str]:
    return {item.nodeid for item in items}


def counted(items: list[Any]) -> Counter[str]:
    return Counter(item.nodeid.partition("[")[0] for item in items)


def test_each_test_runs_for_each_change_as_many_cases_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_it, chosen = counted(cases()), counted(run(monkeypatch, "a", most=8))
    marks = {item.nodeid.partition("[")[0]: item.marks for item in cases()}
    for name, count in all_of_it.items():
        most = 2 if "slow" in marks[name] else 8
        if "some" in marks[name]:
            most = min(most, marks[name]["some"].args[0])
        assert chosen[name] == min(count, most), name


def test_one_seed_draws_the_same_cases_and_another_one_others(monkeypatch: pytest.MonkeyPatch) -> None:
    first = names(run(monkeypatch, "a", most=8))
    assert first == names(run(monkeypatch, "a", most=8))
    assert first != names(run(monkeypatch, "b", most=8))


@pytest.mark.parametrize("most", [None, 8])
def test_change_and_night_together_run_all(monkeypatch: pytest.MonkeyPatch, most: int | None) -> None:
    """The night may draw others: it runs all cases of each test of which a change runs some."""
    night = [item for item in run(monkeypatch, "night", most=most, night=True) if item.get_closest_marker("nightly")]
    for seed in "abc":
        assert names(run(monkeypatch, seed, most=most)) | names(night) == names(cases())


def test_without_a_limit_all_run_but_those_of_tests_with_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = set(counted(cases()) - counted(run(monkeypatch, "a", most=None)))
    assert left_out
    assert left_out <= {item.nodeid.partition("[")[0] for item in cases() if "some" in item.marks}


def test_what_make_test_runs_runs_for_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(run(monkeypatch, "a", most=None, sample=2)) <= names(run(monkeypatch, "a", most=8))


def test_what_has_passed_is_left_out_elsewhere(tmp_path: pathlib.Path) -> None:
    """A case that was skipped has not passed."""
    passed = sampling.Passed(str(tmp_path / "passed"))
    for name, when, outcome in (("a", "setup", "passed"), ("a", "call", "passed"), ("b", "call", "skipped")):
        report: Any = SimpleNamespace(nodeid=name, when=when, outcome=outcome)
        passed.pytest_runtest_logreport(report)
    passed.pytest_sessionfinish()
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config: Any = SimpleNamespace(option=SimpleNamespace(leave_out=passed.path), hook=hook)
    items: list[Any] = [Case(name) for name in "abc"]
    sampling.leave_out(config, items)
    assert [item.nodeid for item in items] == ["b", "c"]
