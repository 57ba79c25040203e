"""Commands that write, on many partitions, sound and damaged ones; then a start: it serves what the plans said."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from running import Done

from .bases import LOG_DIRS
from .cases import Crowd, Outcome, a_place, copied, damaged_crowd, put_aside
from .claims import claims_of, klogtool
from .comparison import Before, Difference, before_start, differences
from .cures import about_writes
from .truth import Asked, Truth, started

# As the topics have them.
CONFIG = ("segment.bytes=3000", "index.interval.bytes=400", "segment.index.bytes=16384")
FREE = ("--except", "retention", "--bytes", "4KiB")
COUNT = 60
WIDE = 140


@dataclass(frozen=True)
class Change:
    """A command that was carried out on a partition. start, end: of the log afterwards, as the plan says.

    is_thinning: it may take records out of the middle, as compaction does. was_sound: before the command; in a damaged
    log records may be hidden, which is what the claims about it say.
    """

    folder: str
    told: str
    start: int | None
    end: int | None
    is_thinning: bool = False
    is_truncation: bool = False
    was_sound: bool = True


def _roll(rng: random.Random, before: Before) -> Sequence[str | int]:
    return ["roll", "--force"]


def _retain(rng: random.Random, before: Before) -> Sequence[str | int]:
    return ["retain", "--config", rng.choice(["retention.ms=1", "retention.bytes=2000", "retention.bytes=4000"])]


def _delete_records(rng: random.Random, before: Before) -> Sequence[str | int]:
    return ["delete-records", "--before", rng.randrange(max(1, before.end + 1))]


def _truncate(rng: random.Random, before: Before) -> Sequence[str | int]:
    return ["truncate", "--to", rng.randrange(max(1, before.end + 1))]


def _rebuild_index(rng: random.Random, before: Before) -> Sequence[str | int]:
    return ["rebuild-index"]


def _compact(rng: random.Random, before: Before) -> Sequence[str | int]:
    return ["compact", "--force", "--config", "cleanup.policy=compact"]


def _recover(rng: random.Random, before: Before) -> Sequence[str | int]:
    return ["recover"]


KINDS: Sequence[Callable[[random.Random, Before], Sequence[str | int]]] = (
    _roll,
    _retain,
    _delete_records,
    _truncate,
    _rebuild_index,
    _compact,
    _recover,
)


def judge_changes(version: str, seed: str) -> Outcome:
    """One start after a command on each of many partitions, and after `free` on the log dirs."""
    with a_place() as place:
        crowd, faults = damaged_crowd(version, seed, place / "damaged")
        rng = random.Random(seed)
        for partition in rng.sample(sorted(crowd.at), len(crowd.at) // 2):
            crowd.lay_down(partition)
            faults[partition] = []
        _, aside = put_aside(version, crowd, place / "aside")
        chosen = rng.sample(sorted(crowd.at.keys() - set(aside)), COUNT)
        outcome = Outcome("commands", version, seed, crowd.state, faults, judged=len(chosen))
        before = before_start(crowd.root)
        changes = [change for name in chosen for change in _changed(version, crowd, name, before, rng, outcome)]
        _free(version, crowd, place / "held", outcome)
        claims, middle = claims_of(version, crowd.root), before_start(crowd.root)
        # A write to a damaged log may end the broker: that is not what is asked here.
        damaged = {name for name in chosen if faults[name]}
        for change in changes:
            faults[change.folder.split("/")[1]].append(change.told)
        sound = set(chosen) - damaged
        truth = started(version, copied(crowd.root, place / "broker"), Asked.WRITE, sound, only_read=damaged)
        outcome.differences += list(differences(claims, truth, middle))
        outcome.differences += list(about_writes(claims, truth))
        if truth.is_up:
            for change in changes:
                outcome.differences += list(about_change(change, before[change.folder], truth))
    return outcome


def _changed(
    version: str, crowd: Crowd, name: str, before: dict[str, Before], rng: random.Random, outcome: Outcome
) -> Iterator[Change]:
    path = crowd.at[name]
    folder = f"{path.parent.name}/{name}"
    command, *rest = rng.choice(KINDS)(rng, before[folder])
    settings = [word for setting in CONFIG for word in ("--config", setting)]
    common = ["--kafka", version, *settings, "--apply", "--format", "json"]
    done = klogtool(crowd.root, command, path, *rest, *common)
    told = " ".join(map(str, ["klogtool", command, *rest]))
    # A broker passes over a link to nowhere; a command that would write says so, and does not go on.
    is_stopped = done.status == 4 and before[folder].is_linked_nowhere
    if done.status not in (0, 1, 3) and not is_stopped:
        outcome.differences.append(Difference("COMMAND", folder, f"{told}: status {done.status} {done.told[-WIDE:]}"))
    elif done.status in (0, 1):
        state = _state(done, path)
        bounds = state.get("log_start_offset"), state.get("log_end_offset")
        yield Change(folder, told, *bounds, command == "compact", command == "truncate", not outcome.faults[name])


def _state(done: Done, path: Path) -> dict[str, int]:
    """What the plan of this partition says of the log afterwards; empty where it says nothing."""
    for row in map(json.loads, done.out.splitlines()):
        answer = row.get("answer") if row["type"] == "plan" and row["path"] == str(path) else None
        if isinstance(answer, dict):
            return dict(answer.get("state") or answer)
    return {}


def _free(version: str, crowd: Crowd, held: Path, outcome: Outcome) -> None:
    dirs = [crowd.root / name for name in LOG_DIRS]
    done = klogtool(crowd.root, "free", *dirs, "--kafka", version, *FREE, "--apply", "--to", held)
    if done.status not in (0, 1, 3):
        outcome.differences.append(Difference("COMMAND", "broker", f"free: status {done.status} {done.told[-WIDE:]}"))


def about_change(change: Change, before: Before, truth: Truth) -> Iterator[Difference]:
    loaded, reading = truth.loaded.get(change.folder), truth.reading(change.folder)
    if loaded is None:
        yield Difference("COMMAND", change.folder, f"{change.told}: the broker does not load it")
        return
    if change.start is not None and change.start != loaded.log_start_offset:
        yield Difference("COMMAND", change.folder, f"{change.told}: plan: log start {change.start}; broker: {loaded}")
    # A truncation within a batch takes all of it: a broker has the end that was asked for, until it starts again.
    is_within = change.is_truncation and change.end is not None and loaded.log_end_offset <= change.end
    if change.end is not None and change.end != loaded.log_end_offset and not is_within:
        yield Difference("COMMAND", change.folder, f"{change.told}: plan: log end {change.end}; broker: {loaded}")
    if reading and not reading.error and reading.is_complete and not reading.stuck:
        end = min(change.end or 0, loaded.log_end_offset)
        kept = {record for record in before.records if change.start is not None and change.start <= record.offset < end}
        if change.was_sound and not change.is_thinning and (gone := kept - reading.records):
            yield Difference("COMMAND", change.folder, f"{change.told}: not served any more: {sorted(gone)[:4]}")
        if change.was_sound and (invented := reading.records - before.records - before.below):
            yield Difference(
                "COMMAND", change.folder, f"{change.told}: served, and not there before: {sorted(invented)[:4]}"
            )
