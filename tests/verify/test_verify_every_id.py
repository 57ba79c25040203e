"""Each id by a wound of its own, in a log dir that is sound but for that: it is found, and nothing else is made up."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from verifying import ids, run_verify
from wounded import CASES, OF_SCRUB

from klogtool.verify.findings import KINDS

Path = pathlib.Path


def test_every_id_has_its_wound() -> None:
    of_remote = {name for name in KINDS if name.startswith("remote-")}  # tests/remote has those
    assert CASES.keys() == KINDS.keys() - OF_SCRUB - of_remote


@pytest.mark.parametrize("finding_id", CASES)
def test_the_wound_is_found_and_nothing_else(finding_id: str, copy_of: Callable[[str], Path]) -> None:
    case = CASES[finding_id]
    log_dir = copy_of(case.fixture)
    for path in log_dir.rglob("*.checkpoint"):
        path.chmod(0o644)
    paths = [log_dir / path for path in case.paths]
    before, _ = run_verify(*paths)
    case.wound(log_dir)
    found, _ = run_verify(*paths, now_ms=case.now_ms, deep=True)
    assert ids(found) - ids(before) == {finding_id, *case.beside}
