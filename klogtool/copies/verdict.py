"""What a comparison of two copies means, in one word, and what belongs to it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from klogtool.copies.comparison import Compared, compare
from klogtool.copies.leadership import CopyEpochs, LeaderChange, better_leader, history_of, truncation_by
from klogtool.format.item_merge import Stretch, StretchKind
from klogtool.format.names import TopicPartition
from klogtool.log.partition import Partition


class Word(StrEnum):
    """The verdict. Nothing else than EQUAL and SAME_RECORDS is status 0."""

    EQUAL = "equal"
    """The same bytes, from where both begin to the end of both."""
    SAME_RECORDS = "same-records"
    """The same records in different batches (only --deep can tell)."""
    A_IS_PREFIX = "a-is-prefix"
    """Equal up to the end of A, and B goes on."""
    B_IS_PREFIX = "b-is-prefix"
    """Equal up to the end of B, and A goes on."""
    DIVERGE = "diverge"
    """From an offset on they have different records, or records of different leaders."""
    OTHER_BATCHES = "other-batches"
    """Their batches differ. Headers do not tell whether the records do."""
    GAPS = "gaps"
    """Equal where both have records. One of them lacks some, as after compaction."""
    DAMAGED = "damaged"
    """Equal as far as both can be read."""
    NOTHING_IN_COMMON = "nothing-in-common"
    """They have no offset in common."""


ALIKE = (Word.EQUAL, Word.SAME_RECORDS)


class DiffVerdict(Struct, frozen=True):
    """offset: where they diverge, or are unlike at first. epochs: leader epochs of A and B there, None: not known.

    leader: which copy a leader should have, "a" or "b"; None if both are as good. a_follows_b: what A loses if B leads,
    b_follows_a: the reverse; None: no leader epochs, so a broker would truncate to the high watermark.
    """

    word: Word
    compared: Compared
    topic_partition: TopicPartition | None
    offset: int | None
    epochs: tuple[int | None, int | None]
    histories: tuple[CopyEpochs, CopyEpochs]
    leader: str | None
    a_follows_b: LeaderChange | None
    b_follows_a: LeaderChange | None

    @property
    def is_alike(self) -> bool:
        """Whether both copies have the same records, as far as their offsets are common."""
        return self.word in ALIKE

    @property
    def end(self) -> int:
        """The offset after the last one that both have."""
        return min(self.compared.a.log_end_offset, self.compared.b.log_end_offset)


def judge(path_a: str, path_b: str, *, deep: bool = False, log_start: int | None = None) -> DiffVerdict:
    """Compare two partition dirs, and say what that means. See `compare` for the arguments and the errors."""
    compared = compare(path_a, path_b, deep=deep, log_start=log_start)
    word, offset = find_word(compared)
    partitions = Partition(path_a), Partition(path_b)
    ends = compared.a.log_end_offset, compared.b.log_end_offset
    by_batches = word not in ALIKE
    a, b = (history_of(*both, by_batches=by_batches) for both in zip(partitions, ends, strict=True))
    a_follows_b, b_follows_a = truncation_by(b, a), truncation_by(a, b)
    if word is Word.DIVERGE and offset is not None:
        offset = _within_batches(compared, offset, a_follows_b, b_follows_a)
    return DiffVerdict(
        word,
        compared,
        partitions[0].topic_partition,
        offset,
        _epochs_at(compared, offset, a, b),
        (a, b),
        better_leader(a, b),
        a_follows_b,
        b_follows_a,
    )


def find_word(compared: Compared) -> tuple[Word, int | None]:
    """Return the verdict, and the offset that it begins with. What is worse comes first."""
    totals, end = compared.totals, min(compared.a.log_end_offset, compared.b.log_end_offset)
    diverging = (StretchKind.OTHER_EPOCH, StretchKind.UNLIKE_EPOCH, *((StretchKind.UNLIKE,) if compared.deep else ()))
    if (offset := _first_of(totals, *diverging)) is not None:
        return Word.DIVERGE, offset
    if (offset := _first_of(totals, StretchKind.UNLIKE, StretchKind.REBATCHED)) is not None:
        return Word.OTHER_BATCHES, offset
    if (offset := _first_of(totals, StretchKind.ONLY_A, StretchKind.ONLY_B)) is not None:
        return Word.GAPS, offset
    damages = compared.a.damages + compared.b.damages
    if damages or StretchKind.UNCOMPARED in totals:
        return Word.DAMAGED, min((damage.first_offset for damage in damages), default=None)
    return _word_without_differences(compared, end)


def _word_without_differences(compared: Compared, end: int) -> tuple[Word, int | None]:
    totals = compared.totals
    for kind, word in ((StretchKind.AFTER_A, Word.B_IS_PREFIX), (StretchKind.AFTER_B, Word.A_IS_PREFIX)):
        if kind in totals:
            first = totals[kind].first_offset
            has_common = StretchKind.SAME in totals or end >= compared.start
            return (word, first) if has_common else (Word.NOTHING_IN_COMMON, None)
    if StretchKind.SAME in totals and totals[StretchKind.SAME].items_a > compared.equal_batches and compared.deep:
        return Word.SAME_RECORDS, None
    return (Word.EQUAL, None) if StretchKind.SAME in totals or end >= compared.start else (Word.NOTHING_IN_COMMON, None)


def _within_batches(compared: Compared, offset: int, *follows: LeaderChange | None) -> int:
    """Return the offset where the leader epochs part, if that lies within batches: their headers do not tell it."""
    parting = min((one.truncates_to for one in follows if one is not None), default=offset)
    for stretch in compared.stretches:
        may_overlap = stretch.kind in (StretchKind.REBATCHED, StretchKind.UNLIKE_EPOCH) and not compared.deep
        if may_overlap and stretch.first_offset <= offset and stretch.first_offset < parting <= stretch.last_offset:
            return parting
    return offset


def _first_of(totals: dict[StretchKind, Stretch], *kinds: StretchKind) -> int | None:
    return min((totals[kind].first_offset for kind in kinds if kind in totals), default=None)


def _epochs_at(compared: Compared, offset: int | None, a: CopyEpochs, b: CopyEpochs) -> tuple[int | None, int | None]:
    """The leader epochs of both at an offset: by the batches there, else by the histories."""
    if offset is None:
        return None, None
    for stretch in compared.stretches:
        is_at = stretch.first_offset <= offset <= stretch.last_offset
        if is_at and stretch.kind in (StretchKind.OTHER_EPOCH, StretchKind.UNLIKE_EPOCH):
            return stretch.epoch_a, stretch.epoch_b
    return a.epoch_at(offset), b.epoch_at(offset)
