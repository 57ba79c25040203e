"""Chooses a cure for each finding of a partition, once all findings are known, because they affect each other's cures.

The rule: no cure destroys what another one would keep. A broker's recovery cuts the log at its first damage, so it is
offered only if nothing sound is after that. Side files of a damaged log cannot be rebuilt.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, UNCLEAN
from klogtool.causes import Reason
from klogtool.format.names import FileKind, PartitionDirState, find_renamed_log, parse_file_name
from klogtool.log.file import is_denied
from klogtool.log.partition import Partition
from klogtool.verify.causes import CureCause, CureRemark
from klogtool.verify.cures import (
    copying_aside,
    in_turn,
    move_out,
    move_out_of_partition,
    parent_of,
    rebuild_index,
    recover,
    remove,
    renaming,
    salvage,
)
from klogtool.verify.findings import Cure, Finding, Kind, RecoveryEffect, Severity
from klogtool.verify.header_end import find_span_only_in
from klogtool.verify.only_copies import may_have
from klogtool.verify.segment_report import SegmentReport
from klogtool.verify.swaps import JudgedSwaps

_CUT_BY_RECOVERY = frozenset(kind for kind in Kind if kind.row.recovery is RecoveryEffect.CUTS)
_STOPS_RECOVERY = frozenset(kind for kind in Kind if kind.row.recovery is RecoveryEffect.STOPS)
_LEFTOVERS = frozenset(kind for kind in Kind if kind.row.cure is Cure.LEFTOVERS)
_EPOCHS = Cure.EPOCHS.value
MOST_AT_ONCE = 16  # segments that one cure puts back: the next check names the others
DELETED_BY_START = (Kind.LEFTOVER_CLEANED, Kind.LEFTOVER_DELETED)


class State(Struct, frozen=True):
    """What is known of a partition dir. reports: of its segments. is_whole: all of them were read.

    is_clean: a broker would take the last stop for clean. swaps: what a start makes of `.swap` files.
    """

    path: str
    reports: Sequence[SegmentReport]
    is_whole: bool
    is_clean: bool
    swaps: JudgedSwaps = JudgedSwaps()

    @property
    def log_end_offset(self) -> int:
        """The offset after the last sound batch."""
        return self.reports[-1].next_offset if self.reports else 0


def with_cures(findings: Sequence[Finding], state: State) -> list[Finding]:
    """Return the findings of a partition, each with its cure; an existing cure stays.

    A dir that a broker was about to delete is moved away whole.
    """
    if Partition(state.path).state is PartitionDirState.DELETE:
        away = move_out(state.path, parent_of(state.path))
        return [
            finding if finding.severity is Severity.INFO else replace(finding, cured_by=away) for finding in findings
        ]
    cures = _Cures(findings, state)
    return [finding if finding.cured_by else replace(finding, cured_by=cures.of(finding)) for finding in findings]


class _Cures:
    def __init__(self, findings: Sequence[Finding], state: State) -> None:
        self._state = state
        self._in_log = [finding for finding in findings if _is_in_log(finding)]
        # Only fields that change nothing for consumers are wrong: a broker loads such a log, so side files can be
        # rebuilt.
        self._is_served = all(finding.field in finding.id.row.served for finding in self._in_log)
        self._damaged = set() if self._is_served else {_base_offset(finding) for finding in self._in_log}
        self._ids = {finding.id for finding in findings if not finding.is_unchecked}
        of_names = (finding.cured_by for finding in findings if finding.id == Kind.SEGMENT_NAME)
        self._of_names = [cure for cure in of_names if cure is not None]
        self._alone = dict(_left_over_alone(findings, state))
        self._put_back = {
            path: renaming(path, segment) for path, segment in self._alone.items() if not os.path.lexists(segment)
        }
        self._copies = [path for path in self._alone if path not in self._put_back]
        self._first = in_turn(*islice(self._put_back.values(), MOST_AT_ONCE)) if self._put_back else None
        # A start ends at these indexes; or a cure that loads the log as after a clean stop may, at that of the active
        # segment.
        false = [f for f in findings if f.id.row.cure is Cure.OFFSET_INDEX]
        self._of_stops = [
            rebuild_index(state.path, Cure.OFFSET_INDEX.value, base)
            for base in dict.fromkeys(_base_offset(f) for f in false if f.stop or self._is_of_active(f))
        ]
        self._aside = {f.path: f.cured_by for f in findings if f.id == Kind.FOREIGN_FILE and f.cured_by is not None}
        self._of_log = self._choose_for_log()
        self._of_leftovers = self._choose_for_leftovers(findings)

    def _is_of_active(self, finding: Finding) -> bool:
        reports = self._state.reports
        return not self._state.is_clean and bool(reports) and _base_offset(finding) == reports[-1].base_offset

    def of(self, finding: Finding) -> Reason | None:
        """Return the cure of one finding; None if there is nothing to do, or nothing helps.

        What a start deletes, and has records alone, is a segment again before anything else: recovery would delete it,
        and other cures would adapt to a log without it.
        """
        cure = self._of_log if finding.path in self._alone else self._of(finding)
        if self._first is None or cure is None:
            return cure
        return self._put_back.get(finding.path, self._first) if len(self._put_back) > MOST_AT_ONCE else self._first

    def _of(self, finding: Finding) -> Reason | None:
        if _is_in_swap(finding):
            return self._of_leftovers
        if _is_in_log(finding):
            return self._of_log
        match finding.id.row.cure:
            case None:
                return self._of_other(finding)
            case Cure.LOG:
                return self._of_log
            case Cure.LEFTOVERS:
                return self._of_leftovers
            case Cure.OFFSET_INDEX | Cure.TIME_INDEX as index:
                base = _base_offset(finding)
                if base in self._damaged:
                    return self._of_log
                epochs = [rebuild_index(self._state.path, _EPOCHS)] if Kind.EPOCHS_CORRUPT in self._ids else []
                return in_turn(*epochs, rebuild_index(self._state.path, index.value, base))
            case Cure.TXN_INDEX | Cure.SNAPSHOTS | Cure.EPOCHS as side_file:
                return self._of_side_file(side_file.value)

    # The log.

    def _choose_for_log(self) -> Reason:
        """Return the cure for a damaged log: one cure for all findings, so that the order of cures does not matter."""
        if self._in_log and self._is_served:
            return CureCause.LEAVE_IT(otherwise=salvage(self._state.path))
        if self._ends_sound_but_for_its_tail():
            return recover(self._state.path, UNCLEAN if self._state.is_clean else None)
        return self._salvage()

    def _salvage(self) -> Reason:
        """Return salvage, after commands that move away names with which no log can be loaded, not even a salvaged
        one."""
        copies = map(copying_aside, self._copies)
        return in_turn(*self._of_names, *copies, salvage(self._state.path, *self._copies[:1]))

    def _ends_sound_but_for_its_tail(self) -> bool:
        """Return whether recovery cuts only the damaged end of the last segment, with nothing sound after it."""
        state = self._state
        if not state.is_whole or not state.reports or self._alone or self._ids & (_STOPS_RECOVERY | _LEFTOVERS):
            return False
        last = state.reports[-1]
        sound_end = last.sound[-1][1] if last.sound else 0
        return len(last.sound) <= 1 and all(
            finding.id in _CUT_BY_RECOVERY
            and finding.path == last.path
            and finding.start is not None
            and finding.start >= sound_end
            for finding in self._in_log
        )

    # Leftovers.

    def _choose_for_leftovers(self, findings: Sequence[Finding]) -> Reason:
        if self._in_log or not self._state.is_whole or self._ids & _STOPS_RECOVERY:
            return self._salvage()
        left = [f for f in findings if f.id in _LEFTOVERS]
        swaps = self._state.swaps
        if swaps.lost.whole or swaps.stopped_by or any((f.first_offset or 0) < 0 for f in left):
            is_alone = any(
                find_span_only_in(path, self._state.reports) for path in (f.path for f in left) if _is_log(path)
            )
            return self._salvage() if is_alone else in_turn(*dict.fromkeys(move_out_of_partition(f.path) for f in left))
        # A swap that a recovery completes keeps its damage.
        if any(_is_in_swap(f) and f.field not in f.id.row.served for f in findings):
            return self._salvage()
        return in_turn(*self._of_stops, recover(self._state.path, CLEAN))

    # Side files.

    def _of_side_file(self, kind: str) -> Reason:
        if not self._is_served:
            return self._of_log
        # Rebuilding loads the log as a broker does, and fails where a broker fails.
        leftovers = [self._of_leftovers] if self._ids & _LEFTOVERS else []
        names = [] if leftovers else self._of_names
        stops = [] if leftovers else self._of_stops
        chain = in_turn(*names, *stops, *leftovers, rebuild_index(self._state.path, kind))
        if Kind.PARTITION_METADATA_CORRUPT in self._ids:
            return CureCause.METADATA_FIRST(then=chain)
        return chain

    # Others.

    def _of_other(self, finding: Finding) -> Reason | None:
        if finding.is_unchecked:
            return None
        if finding.id == Kind.UNREADABLE:
            return self._of_unreadable(finding.path)
        if finding.id == Kind.SNAPSHOT_STRAY:
            return remove(finding.path, CureRemark.BROKER_DELETES())
        if finding.id == Kind.SEGMENT_GAP and finding.severity.value != "info":
            if (back := list(self._walk_back(finding))) and len(back) <= MOST_AT_ONCE:
                return in_turn(*back)
            return CureCause.FROM_REPLICA(command=CureCause.SALVAGE_FROM_COPY(folder=self._state.path))
        return None

    def _walk_back(self, gap: Finding) -> Iterator[Reason]:
        """Yield what brings back the files that may have the offsets of a gap: segments renamed or compressed by
        hand."""
        names = [os.path.basename(report.path) for report in self._state.reports]
        renamed = ((path, find_renamed_log(os.path.basename(path))) for path in self._aside)
        copies = {path: log for path, log in renamed if log}
        if gap.first_offset is not None and gap.last_offset is not None:
            yield from (self._aside[path] for path in may_have(copies, names, [(gap.first_offset, gap.last_offset)]))

    def _of_unreadable(self, path: str) -> Reason:
        try:
            mode = os.stat(path).st_mode
        except OSError:
            mode = stat.S_IFREG
        if not stat.S_ISREG(mode) and path != self._state.path:
            return in_turn(move_out_of_partition(path), *self._rebuilding(path))
        if is_denied(path):
            return CureCause.AS_BROKERS_USER()
        return salvage(self._state.path)

    def _rebuilding(self, path: str) -> Iterator[Reason]:
        """Yield what else it takes if a folder has the name of an index."""
        name = parse_file_name(os.path.basename(path))
        if self._in_log or name.suffix or name.base_offset is None:
            return
        kind = name.kind.value.removeprefix(".")
        if kind in ("index", "timeindex"):
            yield rebuild_index(self._state.path, kind, name.base_offset)


def _base_offset(finding: Finding) -> int | None:
    return parse_file_name(os.path.basename(finding.path)).base_offset


def _is_in_swap(finding: Finding) -> bool:
    return finding.id.row.cure is Cure.LOG and finding.path.endswith(".swap")


def _is_in_log(finding: Finding) -> bool:
    if _is_in_swap(finding):
        return False
    # Salvage gives a segment whose name is above its first batch the right name.
    return finding.id.row.cure is Cure.LOG or (finding.id == Kind.SEGMENT_NAME and finding.first_offset is not None)


def _left_over_alone(findings: Sequence[Finding], state: State) -> Iterator[tuple[str, str]]:
    """Yield each log that a start deletes and that alone has records, with the path of its segment."""
    for finding in findings if state.is_whole else ():
        if finding.loses and finding.id in DELETED_BY_START:
            yield finding.path, os.path.splitext(finding.path)[0]


def _is_log(path: str) -> bool:
    return path.removesuffix(".swap").endswith(FileKind.LOG.value)
