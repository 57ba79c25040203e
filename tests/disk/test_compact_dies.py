"""compact --apply, killed after every call and inside of it: a start finds the log as it was, or as it is to be.

Nothing is lost on the way: the last value of each key is there, aborted data stays unread.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from crash_scene import Scene, Work
from dying import NAME, after_a_start, saved_plans, stopped_log_dir
from made import contents
from mortal import HastyDisk

from klogtool.disk.output import carry_out_to
from klogtool.format.indexes import parse_txn_index
from klogtool.log.entries import walk_entries
from klogtool.plans.saved_plan import SavedPlan

NOW_MS = 1_700_000_300_000
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1"}
CASES: dict[str, dict[str, Any]] = {
    "one segment of all": {},
    "several segments": {"config": {"segment.bytes": "1200"}},
    "purged": {"purge": True},
    "several passes": {
        "passes_at_ms": [NOW_MS, NOW_MS + 1000, NOW_MS + 2000],
        "force": True,
        "config": {"segment.bytes": "2000", "log.cleaner.dedupe.buffer.size": "120"},
    },
}


def decided(case: str, folder: pathlib.Path) -> list[SavedPlan]:
    asked = {"now_ms": NOW_MS, "jobs": 1, **CASES[case]}
    asked["config"] = CONFIG | asked.get("config", {})
    return saved_plans("compact", folder, asked)


def readable(folder: pathlib.Path) -> dict[bytes | None, bytes | None]:
    """The last value of each key, as a reader of committed data finds it. Keys without one are left out."""
    logs = sorted(folder.glob("*.log"))
    aborted = [txn for path in folder.glob("*.txnindex") for txn in parse_txn_index(path.read_bytes())]
    found: dict[bytes | None, bytes | None] = {}
    for batch in (batch for path in logs for batch in walk_entries(str(path))):
        is_aborted = batch.is_transactional and any(
            txn.producer_id == batch.producer_id and txn.first_offset <= batch.last_offset <= txn.last_offset
            for txn in aborted
        )
        if not batch.is_control and not is_aborted:
            found |= {record.key: record.value for record in batch.records()}
    return {key: value for key, value in found.items() if key is not None and value is not None}


def offsets(folder: pathlib.Path) -> list[int]:
    return [batch.last_offset for path in sorted(folder.glob("*.log")) for batch in walk_entries(str(path))]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_start_finds_all_that_is_to_stay(box: pathlib.Path, case: str) -> None:
    def make(box: pathlib.Path) -> Work:
        log_dir = stopped_log_dir(box)
        return Work(log_dir, lambda: decided(case, log_dir / NAME))

    scene = Scene(box, make)
    log_dir, aside = scene.log_dir, box.parent / "aside"
    scene.put(scene.states.before)
    before, values = offsets(log_dir / NAME), readable(log_dir / NAME)
    (aside / "whole").mkdir(parents=True)
    carry_out_to(decided(case, log_dir / NAME)[:1], str(log_dir / NAME), str(aside / "whole" / NAME), disk=HastyDisk())
    after = offsets(aside / "whole" / NAME)
    seen: list[dict[str, bytes]] = []  # a start sees nothing else
    for n, world in scene.states.walk_deaths("nothing", "everything", "mixed 1"):
        if (left := world.contents(box, without=(".klogtool/", "/.lock"))) in seen:
            continue
        seen.append(left)
        scene.put(world)
        found = aside / "started" / NAME
        after_a_start(log_dir / NAME, found, {"now_ms": NOW_MS, "last_stop": "unclean", "jobs": 1})
        assert readable(found) == values, n
        assert set(after) <= set(offsets(found)) <= set(before), n
        assert not [name for name in contents(found) if name.endswith((".cleaned", ".swap"))], n
    assert len(seen) > 3
