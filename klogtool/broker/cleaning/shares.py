"""A pass of the log cleaner in shares. A share finds the keys of one segment, or cleans one group of segments.

A crew does the shares, in processes or in Spark's tasks. Each share runs the code of a whole pass over the same log.
The results together are the same as those of a whole pass, to the byte; where they cannot be, NotShared is raised.

Only the open transactions pass from one share to the next. A share begins with the transactions that are expected
there. Afterwards they are compared with those at the end of the share before. If they differ, the group is cleaned
again, or the map is filled in one go. The map is also filled in one go if it becomes full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.cleaning.cleaned_transactions import CleanedTransactions
from klogtool.broker.cleaning.cleaner import CleaningAborted, CleaningStats, Pass
from klogtool.broker.cleaning.dirty_range import LogToClean
from klogtool.broker.cleaning.kernel_cleaning import has_kernels_map
from klogtool.broker.cleaning.offset_map import new_secret
from klogtool.broker.cleaning.record_filter import CleaningTally
from klogtool.broker.content import Content
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.log_segment import LogSegment
from klogtool.broker.unified_log.overflow_split import CLEANED
from klogtool.errors import KlogError
from klogtool.format.indexes import AbortedTxn, TimeIndexEntry
from klogtool.format.names import SEGMENT_KINDS, FileKind, build_file_name

MOST_ROUNDS = 5  # of groups that began with wrong transactions


class NotShared(KlogError):
    """The shares cannot give the result of a whole pass: run the pass as a whole."""


class KeyShare(Struct, frozen=True):
    """A dirty segment, by its base offset, whose keys are to be found. transactions: as they are where it begins."""

    base_offset: int
    size: int
    transactions: CleanedTransactions


class KeysResult(Struct, frozen=True):
    """The result of a KeyShare: records read, whether all keys had room, the transactions at its end."""

    messages_read: int
    is_all: bool
    transactions: CleanedTransactions


class MapResult(Struct, frozen=True):
    """The map: how many keys, up to which offset, whether it became full; records read for it."""

    entries: int
    latest_offset: int
    is_full: bool
    messages_read: int


class GroupShare(Struct, frozen=True):
    """Segments, by their base offsets, that become one segment. transactions: those open where the first one begins."""

    base_offsets: tuple[int, ...]
    size: int
    transactions: CleanedTransactions


class GroupCleaned(Struct, frozen=True):
    """The result of a GroupShare: the content of the new segment's files, and the counts that a pass needs."""

    files: Mapping[FileKind, Content]
    max_timestamp: TimeIndexEntry | None
    tallies: Mapping[int, CleaningTally]
    transactions: CleanedTransactions


class SentPass(Struct, frozen=True):
    """A pass on its way to those who do shares of it: the log as it was loaded, and what else makes the pass. secret:
    of all its maps, so that they can be put together."""

    log: LoadedLog
    to_clean: LogToClean
    now_ms: int
    keeps_magic: bool
    secret: bytes

    def arrive(self) -> Pass:
        """Return the pass, not started."""
        return Pass(self.log, self.to_clean, self.now_ms, keeps_magic=self.keeps_magic, secret=self.secret)


class Crew(Protocol):
    """Does the shares. If it raises an error, the caller runs the pass as a whole."""

    def find_keys(self, sent: SentPass, shares: Sequence[KeyShare]) -> tuple[int, list[KeysResult]]:
        """The keys of all shares into one map: how many there are, and what became of each."""

    def fill_map(self, sent: SentPass) -> MapResult:
        """Fill the map in one go, as `Pass.build_map` does."""

    def clean_groups(self, sent: SentPass, shares: Sequence[GroupShare], latest_offset: int) -> list[GroupCleaned]:
        """Clean each group by itself with the map made last. latest_offset: the last offset in that map."""


def clean_in_shares(
    crew: Crew, log: LoadedLog, to_clean: LogToClean, now_ms: int, *, keeps_magic: bool = False
) -> tuple[int, CleaningStats]:
    """Clean a log as `cleaner.clean` does. Raises NotShared and the errors of the crew; the draft is then invalid."""
    return SharedPass(log, to_clean, now_ms, keeps_magic=keeps_magic, crew=crew).run()


class SharedPass(Pass):
    """A pass that leaves its two long parts to a crew."""

    def __init__(self, log: LoadedLog, to_clean: LogToClean, now_ms: int, *, keeps_magic: bool, crew: Crew) -> None:
        super().__init__(log, to_clean, now_ms, keeps_magic=keeps_magic)
        self._crew, self._sent = crew, SentPass(log, to_clean, now_ms, keeps_magic, new_secret())
        if not has_kernels_map(self.offsets):
            raise NotShared("only the extension has a map that can be put together")

    def build_map(self) -> None:
        """Fill the map by segments, or else in one go. Raises NotShared."""
        result = self._map_by_segments() or self._crew.fill_map(self._sent)
        self.stats.map_messages_read, self.stats.map_entries = result.messages_read, result.entries
        self.stats.map_is_full, self.offsets.latest_offset = result.is_full, result.latest_offset

    def _map_by_segments(self) -> MapResult | None:
        """None where the map becomes full, since offsets in their order say when; or transactions are not as
        supposed."""
        dirty, aborted = self.dirty, list(self.aborted_between(self.first_dirty, self.bound))
        if not dirty:
            return MapResult(0, self.offsets.latest_offset, is_full=False, messages_read=0)
        shares = [
            KeyShare(segment.base_offset, segment.size, _begun(aborted, segment.base_offset if n else None))
            for n, segment in enumerate(dirty)
        ]
        entries, results = self._crew.find_keys(self._sent, shares)
        has_room = all(keys.is_all for keys in results) and entries < self.offsets.usable
        # Each share has to begin with the transactions that the share before ended with.
        pairs = zip(results, shares[1:], strict=False)
        ends = ((done.transactions, share.transactions, share.base_offset) for done, share in pairs)
        if not has_room or any(end.aborted_from(base) != begun.aborted_from(base) for end, begun, base in ends):
            return None
        messages_read = sum(keys.messages_read for keys in results)
        return MapResult(entries, self.bound - 1, is_full=False, messages_read=messages_read)

    def clean_groups(self, groups: list[list[LogSegment]]) -> None:
        """Let the crew clean all groups, again those that began with wrong transactions. Raises NotShared."""
        shares = [
            GroupShare(
                tuple(segment.base_offset for segment in group),
                sum(segment.size for segment in group),
                CleanedTransactions(),
            )
            for group in groups
        ]
        results: dict[int, GroupCleaned] = {}
        due: Iterable[int] = range(len(groups))
        for _ in range(MOST_ROUNDS):
            done = self._crew.clean_groups(self._sent, [shares[n] for n in due], self.offsets.latest_offset)
            results |= dict(zip(due, done, strict=True))
            wrong = self._begun_wrong(groups, shares, results)
            if not wrong:
                break
            for n, transactions in wrong.items():
                shares[n] = replace(shares[n], transactions=transactions)
            due = list(wrong)
        else:
            raise NotShared("a transaction goes on over many segments", path=self.log.draft.path)
        for n, group in enumerate(groups):
            self.put_in_place(self._taken(shares[n], results[n]), group)

    def _begun_wrong(
        self, groups: list[list[LogSegment]], shares: Sequence[GroupShare], cleaned: Mapping[int, GroupCleaned]
    ) -> dict[int, CleanedTransactions]:
        """Groups whose transactions were not as supposed, and what they are, as far as that is known by now."""
        wrong = {}
        now = CleanedTransactions()
        for n, group in enumerate(groups):
            done = cleaned[n].transactions
            if done.is_queried:
                if not shares[n].transactions.is_like(now):
                    wrong[n] = now
                now = done.copy()
                now.is_queried = False  # nobody has asked the next share yet
            else:
                now = now.copy()
                for m in range(len(group)):
                    now.add_aborted(self.aborted_of(group, m))
        return wrong

    def _taken(self, share: GroupShare, done: GroupCleaned) -> LogSegment:
        base_offset, draft = share.base_offsets[0], self.log.draft
        for kind, content in done.files.items():
            draft.write(build_file_name(kind, base_offset, CLEANED), content)
        cleaned = LogSegment(draft, base_offset, self.config, CLEANED)
        cleaned.max_timestamp_so_far = done.max_timestamp
        self.stats.groups[base_offset] = list(share.base_offsets)
        self.stats.tallies |= done.tallies
        return cleaned


def _begun(aborted: Iterable[AbortedTxn], offset: int | None) -> CleanedTransactions:
    """Transactions as they are at an offset if each ended where the transaction index says; None: at the beginning."""
    transactions = CleanedTransactions()
    transactions.add_aborted(txn for txn in aborted if offset is None or txn.last_offset >= offset)
    return transactions


# What one share is.


def find_keys(whole: Pass, share: KeyShare) -> KeysResult:
    """Put the keys of a segment into the map of a pass."""
    before, transactions = whole.stats.map_messages_read, share.transactions
    is_all = whole.map_segment(whole.log.segments[share.base_offset], transactions)
    whole.buffer.restore()
    return KeysResult(whole.stats.map_messages_read - before, is_all, transactions)


def clean_group(whole: Pass, share: GroupShare) -> GroupCleaned:
    """Clean a group with the map of a pass. Raises KlogError as a pass does, and NotShared."""
    whole.transactions = share.transactions.copy()
    try:
        cleaned = whole.clean_group([whole.log.segments[base] for base in share.base_offsets])
    except CleaningAborted:
        raise NotShared("a segment is to be split", path=whole.log.draft.path) from None
    files = whole.log.draft.files
    names = {kind: cleaned.name_of(kind) for kind in SEGMENT_KINDS}
    contents = {kind: files[name].content for kind, name in names.items() if name in files}
    cleaned.delete()
    tallies = {base: whole.stats.tallies[base] for base in share.base_offsets}
    return GroupCleaned(contents, cleaned.max_timestamp_so_far, tallies, whole.transactions.copy())
