"""A segment that has to be recovered twice is walked over once, where the second walk would find what the first did."""

from __future__ import annotations

import pathlib
import random
import shutil
from collections import Counter

import pytest
from damage import flip_bit
from msgspec.structs import replace
from running import ROOT

from klogtool.broker.circumstances import UNCLEAN, Circumstances, terms_of
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.segment_recovery import Recovered, SegmentRecovery
from klogtool.errors import KlogError

NOW_MS = 1_800_000_000_000
LOGS = sorted(
    {log.parent for name in ("transactions", "killed-mid-append", "every-codec") for log in
     (ROOT / "fixtures" / name / "logdir").glob("*/*.log")}
)  # fmt: skip
SEEDS = range(12)


def loaded(path: pathlib.Path) -> tuple[object, ...]:
    """All that a broker's start makes of a partition dir, or why it fails."""
    draft = Draft.of(str(path))
    try:
        log = LoadedLog(draft, terms_of(str(path), Circumstances(now_ms=NOW_MS, last_stop=UNCLEAN, recovery_point=0)))
    except KlogError as error:
        return str(error), error.kafka_class
    log.stop()
    files = {name: read_content(file.content) for name, file in draft.files.items()}
    stopped_by = {base: str(error) for base, error in log.report.stopped_by.items()}
    report = replace(log.report, stopped_by={})
    return files, report, stopped_by, log.log_end_offset, log.recovery_point, log.producers.state()


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each segment was walked over, by base offset."""
    counted, run = Counter[int](), SegmentRecovery.run

    def counting(recovery: SegmentRecovery) -> int:
        counted[recovery.segment.base_offset] += 1
        return run(recovery)

    monkeypatch.setattr(SegmentRecovery, "run", counting)
    return counted


def lose_and_damage(path: pathlib.Path, rng: random.Random) -> None:
    for file in sorted(path.iterdir()):
        if file.suffix in (".index", ".snapshot", ".timeindex", ".txnindex") and rng.random() < 0.6:
            file.unlink()
    for log in sorted(path.glob("*.log")):
        if rng.random() < 0.3 and log.stat().st_size:
            flip_bit(log, rng.randrange(log.stat().st_size))


@pytest.mark.parametrize("source", LOGS, ids=lambda path: f"{path.parent.parent.name}/{path.name}")
def test_it_comes_to_the_same(
    source: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, walks: Counter[int]
) -> None:
    left_out = 0
    for seed in SEEDS:
        path = tmp_path / str(seed) / source.name
        shutil.copytree(source, path)
        lose_and_damage(path, random.Random(seed))
        walks.clear()
        once = loaded(path)
        left_out -= walks.total()
        walks.clear()
        with monkeypatch.context() as patched:
            patched.setattr(Recovered, "would_repeat", lambda *_: False)
            assert loaded(path) == once, f"seed {seed}"
        left_out += walks.total()
    assert left_out > 0


def test_all_indexes_gone(tmp_path: pathlib.Path, walks: Counter[int]) -> None:
    path = tmp_path / "t-0"
    shutil.copytree(ROOT / "fixtures/transactions/logdir/t-0", path)
    for index in path.glob("*.index"):
        index.unlink()
    loaded(path)
    assert set(walks) == {int(log.stem) for log in path.glob("*.log")}
    assert set(walks.values()) == {1}
