"""recover of many partitions: which of them are summed up in one line, and the totals."""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.plans.plan import Plan
from klogtool.plans.recover_result import Recovery
from klogtool.plans.results import LeftAlone
from klogtool.render.counts import count_text
from klogtool.render.digest import Totals
from klogtool.render.recover import scanned_bytes, unread_segments


def recover_brief(plan: Plan) -> str | None:
    """Return the text by which plans are counted together; None if the plan is shown by itself."""
    result = plan.result
    if isinstance(result, LeftAlone):
        return result.skipped
    return "nothing is lost" if isinstance(result, Recovery) and not result.split else None


class RecoverTotals(Totals):
    """How many partitions lose records, how many offsets in total, and how many bytes recovery scans."""

    def __init__(self) -> None:
        self._partitions = self._losing = self._offsets = self._uncounted = self._lacking = 0
        self._scanned = self._scanned_bytes = self._unread_bytes = 0

    def add(self, plan: Plan, *, is_loud: bool) -> None:
        """Add a plan. is_loud: the plan loses records, or records are gone already."""
        recovery = plan.result
        if not isinstance(recovery, Recovery):
            return
        self._partitions += 1
        if is_loud:
            self._add_loss(recovery)
        self._scanned_bytes += scanned_bytes(plan, recovery)
        self._scanned += bool(recovery.recovered)
        self._unread_bytes += sum(unread_segments(plan, recovery).values())

    def _add_loss(self, recovery: Recovery) -> None:
        behind, lost = recovery.behind_end, recovery.lost
        unseen = behind.offsets if behind is not None and behind.clean_marker_false else 0
        if not recovery.loses_records and not unseen:
            self._lacking += 1
            return
        self._losing += 1
        if not recovery.loses_records:
            self._offsets += unseen
        elif lost is None:
            self._uncounted += 1
        else:
            self._offsets += lost.last_offset - lost.first_offset + 1

    def walk(self) -> Iterator[str]:
        """Yield the lines with the totals; none if there is only one partition."""
        if self._partitions < 2:
            return
        of_all = f"of {count_text(self._partitions, 'partition')}"
        told = (
            f"this startup loses nothing more in any {of_all}"
            if self._lacking
            else (f"nothing is lost in any {of_all}")
        )
        if self._losing:
            more = f", and damaged bytes at the end of {self._uncounted:,} of them" if self._uncounted else ""
            verb = "LOSES" if self._losing == 1 else "LOSE"
            told = f"{self._losing:,} {of_all} {verb} {count_text(self._offsets, 'offset')}{more}"
        if self._lacking:
            verb = "has" if self._lacking == 1 else "have"
            told += f"; {count_text(self._lacking, 'partition')} {verb} damage or a gap already"
        yield f"In all: {told}; {self._scanned:,} to be recovered, {self._scanned_bytes:,} bytes to scan."
        if self._unread_bytes:
            yield (
                f"Not read: {self._unread_bytes:,} bytes, which a broker does not check at this startup. "
                "klogtool verify looks for damage there."
            )
