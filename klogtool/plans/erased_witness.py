"""What a plan removes that alone shows that a log lacks offsets: a snapshot or a leader epoch beyond its end, or an
index without its `.log`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from klogtool.broker.content import read_content
from klogtool.broker.draft import DraftFile
from klogtool.broker.unified_log.log_loader import LoadedLog, LogParts
from klogtool.errors import KlogError
from klogtool.format.checkpoints import parse_leader_epoch_checkpoint
from klogtool.format.names import FileKind, parse_file_name
from klogtool.plans.recover_gaps import find_gaps, with_erased
from klogtool.plans.results import Result
from klogtool.verify.only_copies import find_orphans


class ErasedWitness(Struct, frozen=True):
    """Offsets that only the file `told_by` shows to be missing, and not after the plan."""

    first_offset: int
    last_offset: int
    told_by: str


class ErasedWitnesses(Result, frozen=True):
    """What a plan removes the witnesses of."""

    erased: list[ErasedWitness]


def find_erased_witnesses(log: LogParts, log_end_offset: int) -> list[ErasedWitness]:
    """Return what nothing shows any more to be missing: gaps, if all of the log was loaded, and what is behind its end.
    log: its draft is as the plan leaves it."""
    return [*(walk_erased_gaps(log) if isinstance(log, LoadedLog) else ()), *_behind_end(log, log_end_offset)]


def walk_erased_gaps(log: LoadedLog) -> Iterator[ErasedWitness]:
    """Yield the gaps of which nothing tells any more."""
    compaction = log.terms.compaction
    for gap in with_erased(log, find_gaps(log, compaction), compaction):
        if gap.erased and gap.told_by is not None:
            yield ErasedWitness(gap.first_offset, gap.last_offset, gap.told_by)


def _behind_end(log: LogParts, log_end_offset: int) -> Iterator[ErasedWitness]:
    before, after = log.draft.before, log.draft.files
    orphans = {name: base for base, name in find_orphans(log.draft.before).items()}
    reached_by = {**_reaches(before), **orphans}
    kept = {**_reaches(after), **{name: base for name, base in orphans.items() if name in after}}
    by_checkpoints = (each.offset for each in log.terms.evidence)
    reach = max([log_end_offset, *kept.values(), *by_checkpoints])
    name = max(reached_by, key=lambda each: reached_by[each], default=None)
    if name is not None and reached_by[name] > reach:
        yield ErasedWitness(reach, reached_by[name] - 1, name)


def _reaches(files: Mapping[str, DraftFile]) -> dict[str, int]:
    """Return how far the log reached, by the name of each file that shows it."""
    parsed = [parse_file_name(name) for name in files]
    snapshots = [file for file in parsed if file.kind is FileKind.PRODUCER_SNAPSHOT and not file.suffix]
    bases = {file.name: file.base_offset for file in snapshots if file.base_offset is not None}
    name = FileKind.LEADER_EPOCH_CHECKPOINT.value
    try:
        epochs = parse_leader_epoch_checkpoint(read_content(files[name].content)) if name in files else []
    except KlogError:  # it says nothing
        return bases
    return bases | {name: max((epoch.start_offset for epoch in epochs), default=0)}
