"""What is wrong with bytes of a log that are not a sound entry, and where the log continues after them.

Bytes are classified from the first one on: the end of the log, torn or full of zeros; an entry whose frame fits, so its
bytes were changed; an entry that fits with a corrected length or magic; or no entry at all.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice, pairwise

from msgspec import Struct

from klogtool.causes import Reason, words
from klogtool.format.batch import CRC_COVERS_FROM, RECORD_BATCH_OVERHEAD, parse_batch
from klogtool.format.batch_proof import Judged, batch_facts
from klogtool.format.framing import HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, MIN_LENGTH, Frame
from klogtool.format.java_numbers import MAX_INT
from klogtool.format.resync import LARGEST_SOUGHT_BYTES
from klogtool.log.probing import Probe
from klogtool.verify.causes import DamageCause
from klogtool.verify.findings import Kind

OFFSET_BYTES = 8
LEAST_ZERO_TAIL_BYTES = HEADER_SIZE_UP_TO_MAGIC + 1  # fewer zeros may belong to the bytes before them
MOST_STEPS = 64  # limit of frames to follow, to see whether they lead to a sound entry
MANY_WRONG_BATCHES = 1000  # from this number on, wrong batches are judged many at a time (judge_run)
MOST_HEADS = 1024  # limit of places to try as the end of an entry with a wrong length


class Damage(Struct, frozen=True):
    """Bytes [start, end) that are damaged; id, field, reason and detail as in Finding.

    first_offset, last_offset: what was there, if known. entry: it can be read in spite of the damage. count: how many
    entries, for a run in which each has the same damage.
    """

    id: Kind
    start: int
    end: int
    reason: Reason
    first_offset: int | None = None
    last_offset: int | None = None
    field: str | None = None
    entry: Judged | None = None
    count: int = 1

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.end - self.start

    @property
    def detail(self) -> str:
        """What is wrong, as one sentence."""
        return words(self.reason)


class DamageJudge:
    """Judges damaged parts of one log. base_offset: its segment's."""

    def __init__(self, probe: Probe, base_offset: int, *, deep: bool = False) -> None:
        self._probe, self._base_offset, self._deep = probe, base_offset, deep

    def judge(self, at: int, last_offset: int) -> list[Damage]:
        """Return what is wrong from byte `at` on, where no sound entry is; not empty, in order.

        last_offset: of the entry before. The bytes after the last damage must be judged next.
        """
        probe, end = self._probe, self._probe.end
        if probe.zeros_from() <= at:
            return [self._zeros(at, last_offset)]
        if end - at <= HEADER_SIZE_UP_TO_MAGIC:
            return [self._torn(at, end, last_offset)]
        return (
            self._wrong_magic(at)
            or self._wrong_bytes(self._sure_step(at, last_offset), last_offset)
            or self._wrong_length(at)
            or self._wrong_bytes(self._cautious_steps(at), last_offset)
            or self._part_of_entry(at, last_offset)
            or self._no_entry(at, last_offset)
        )

    def judge_run(self, at: int, last_offset: int) -> Damage | None:
        """Judge batches from `at` on, each with a sound header and wrong bytes, as one damage; None if it is not that
        simple."""
        end, count, last = self._probe.walk_unproved(at, last_offset)
        if not count:
            return None
        first = parse_batch(self._probe.head(at)).base_offset
        return Damage(Kind.BATCH_CRC, at, end, DamageCause.WRONG_BATCH(), first, last, count=count)

    # The end of the log.

    def _zeros(self, at: int, last_offset: int) -> Damage:
        end = self._probe.end
        if end - at < OFFSET_BYTES and self._may_begin_entry(at, last_offset):
            return self._torn(at, end, last_offset)
        return Damage(Kind.ZERO_TAIL, at, end, DamageCause.ZEROS(size=end - at))

    def _torn(self, at: int, end: int, last_offset: int) -> Damage:
        head = self._probe.head(at)
        if len(head) <= HEADER_SIZE_UP_TO_MAGIC:
            return Damage(Kind.TORN_BATCH, at, end, DamageCause.CUT_BEHIND(size=end - at))
        first, last = self._offsets(head, last_offset, None)
        reason = DamageCause.CUT_INSIDE(size=end - at, claimed=self._probe.claimed_size(at))
        return Damage(Kind.TORN_BATCH, at, end, reason, first, last)

    def _may_begin_entry(self, at: int, last_offset: int) -> bool:
        """Return whether the first bytes may be those of an offset after the last one."""
        prefix = self._probe.head(at)[:OFFSET_BYTES]
        missing = OFFSET_BYTES - len(prefix)
        lowest = int.from_bytes(prefix + bytes(missing), "big")
        highest = int.from_bytes(prefix + b"\xff" * missing, "big")
        return lowest <= self._base_offset + MAX_INT and highest > last_offset

    # An entry with a wrong field or some wrong bytes.

    def _wrong_magic(self, at: int) -> list[Damage]:
        frame = self._probe.frame(at)
        if not isinstance(frame, Frame) or frame.magic == 2:
            return []
        judged = self._probe.judge_as_batch(at, frame.size, deep=self._deep)
        return [] if judged is None else [_wrong_magic(judged, frame.magic)]

    def _wrong_bytes(self, steps: list[int], last_offset: int) -> list[Damage]:
        """Return frames that lead to where the log continues or ends: so the lengths are right, and the bytes under the
        CRCs are wrong."""
        damages = []
        for start, stop in pairwise(steps):
            first, last = self._offsets(self._probe.head(start), last_offset, stop)
            cause = DamageCause.WRONG_MESSAGE if self._magic(start) < 2 else DamageCause.WRONG_BATCH
            damages.append(Damage(Kind.BATCH_CRC, start, stop, cause(), first, last))
            last_offset = last_offset if last is None else last
        return damages

    def _steps(self, at: int, most: int, is_next: Callable[[int], bool]) -> list[int]:
        """Return where frames begin from `at` on, and where the last one ends; empty if they lead nowhere."""
        steps = [at]
        for _ in range(most):
            frame = self._probe.frame(steps[-1])
            if not isinstance(frame, Frame):
                return []
            steps.append(steps[-1] + frame.size)
            if is_next(steps[-1]):
                return steps
        return []

    def _sure_step(self, at: int, last_offset: int) -> list[int]:
        """Return one step to where the log continues. A wrong length may lead there too, past sound entries, or into
        one of them, to a batch in a record's value."""
        steps = self._steps(at, 1, self._is_next)
        following = passed = self._probe.next_proved(at + 1) if steps else None
        while passed is not None and passed < steps[-1]:
            judged = self._probe.judge(passed)
            if judged is None or judged.facts.last_offset <= last_offset:
                return steps
            passed, last_offset = judged.facts.end, judged.facts.last_offset
        return steps if passed == following else []

    def _cautious_steps(self, at: int) -> list[int]:
        """Return the steps by weaker evidence, so the steps must not lead past a sound entry."""
        steps = self._steps(at, MOST_STEPS, self._may_be_next)
        following = self._probe.next_proved(at + 1)
        return [] if steps and following is not None and steps[-1] > following else steps

    def _is_next(self, at: int) -> bool:
        """Return whether the log certainly continues or ends there. A message's header proves nothing."""
        probe = self._probe
        return at == probe.end or (self._magic(at) == 2 and probe.looks_like_entry(at)) or probe.judge(at) is not None

    def _may_be_next(self, at: int) -> bool:
        """Return whether it may continue there: a message, a torn entry, or some bytes of its header."""
        probe, left = self._probe, self._probe.end - at
        if 0 < left <= HEADER_SIZE_UP_TO_MAGIC and probe.zeros_from() > at:
            return self._may_begin_entry(at, self._base_offset - 1)
        return self._is_next(at) or probe.zeros_from() <= at or probe.looks_like_entry(at, even_torn=True)

    def _magic(self, at: int) -> int:
        """Return the magic in the header there; -1 if it ends before that."""
        head = self._probe.head(at)
        return head[HEADER_SIZE_UP_TO_MAGIC - 1] if len(head) >= HEADER_SIZE_UP_TO_MAGIC else -1

    def _wrong_length(self, at: int) -> list[Damage]:
        """Judge a wrong length: the CRC matches up to another place than the length says, and there the log continues
        or ends."""
        probe, magic = self._probe, self._magic(at)
        if magic > 2:
            return []
        judge = probe.judge_as_batch if magic == 2 else probe.judge_as_message
        for stop in self._checked_ends(at) if magic == 2 else self._possible_ends(at)[:MOST_STEPS]:
            judged = judge(at, stop - at, deep=self._deep)
            if judged is not None:
                return [_wrong_length(judged, probe.claimed_size(at))]
        return []

    def _checked_ends(self, at: int) -> list[int]:
        """Return where a batch may end so that its CRC is right."""
        head = self._probe.head(at)
        if len(head) < RECORD_BATCH_OVERHEAD:
            return []
        stop = self._probe.find_crc32c(at + CRC_COVERS_FROM, self._possible_ends(at), parse_batch(head).crc)
        return [] if stop is None else [stop]

    def _possible_ends(self, at: int) -> list[int]:
        """Return where an entry that begins here may end: where another one may begin, or nothing follows."""
        probe, following = self._probe, self._probe.next_proved(at + 1)
        farthest = min(probe.end if following is None else following, at + LARGEST_SOUGHT_BYTES)
        least = at + (LOG_OVERHEAD + MIN_LENGTH)
        ends = set(islice(probe.heads(least, farthest), MOST_HEADS))
        zeros = probe.zeros_from()
        # The last bytes of a batch may be zeros, and so may those after it.
        ends.update(range(max(zeros, least), min(zeros + MOST_STEPS, farthest)))
        return sorted({*ends, farthest})

    def _part_of_entry(self, at: int, last_offset: int) -> list[Damage]:
        """Judge a header that may be an entry's, with too few or too many bytes after it."""
        probe = self._probe
        if not probe.looks_like_entry(at, even_torn=True):
            return []
        size, following = probe.claimed_size(at), probe.next_proved(at + 1)
        if following is None and size > probe.end - at:
            return [self._torn(at, probe.end, last_offset)]
        stop = min(at + size, probe.end if following is None else following)
        first, last = self._offsets(probe.head(at), last_offset, following)
        return [Damage(Kind.BATCH_CRC, at, stop, DamageCause.NONE_THERE(size=size), first, last)]

    # Anything else.

    def _no_entry(self, at: int, last_offset: int) -> list[Damage]:
        probe, end, zeros = self._probe, self._probe.end, self._probe.zeros_from()
        following = probe.next_proved(at + 1)
        if following is not None:
            first, last = self._missing(last_offset, following)
            return [Damage(Kind.FOREIGN_BYTES, at, following, DamageCause.NO_BATCH(), first, last)]
        if end - zeros < LEAST_ZERO_TAIL_BYTES:
            return [Damage(Kind.FOREIGN_BYTES, at, end, DamageCause.NONE_FOLLOWS())]
        tail = Damage(Kind.ZERO_TAIL, zeros, end, DamageCause.ZEROS(size=end - zeros))
        if zeros - at < RECORD_BATCH_OVERHEAD and self._may_begin_entry(at, last_offset):
            return [Damage(Kind.TORN_BATCH, at, zeros, DamageCause.HEADER_CUT()), tail]
        return [Damage(Kind.FOREIGN_BYTES, at, zeros, DamageCause.NONE_FOLLOWS()), tail]

    # Offsets.

    def _offsets(self, head: bytes, last_offset: int, following: int | None) -> tuple[int | None, int | None]:
        """Return the offsets in the header of a damaged entry if they fit its neighbours; else the missing offsets."""
        next_offset = self._first_offset(following)
        if len(head) == RECORD_BATCH_OVERHEAD:
            facts = batch_facts(parse_batch(head))
            last = facts.last_offset if facts.magic >= 2 else facts.first_offset
            highest = self._base_offset + MAX_INT if next_offset is None else next_offset - 1
            if last_offset < facts.first_offset <= last <= highest:
                return facts.first_offset, last
        return self._missing(last_offset, following)

    def _missing(self, last_offset: int, following: int | None) -> tuple[int | None, int | None]:
        next_offset = self._first_offset(following)
        if next_offset is None or next_offset <= last_offset + 1:
            return None, None
        return last_offset + 1, next_offset - 1

    def _first_offset(self, position: int | None) -> int | None:
        """Return the first offset of the entry there, if it looks reliable."""
        if position is None or not self._probe.looks_like_entry(position):
            return None
        frame = self._probe.frame(position)
        return frame.offset if isinstance(frame, Frame) and frame.magic == 2 else None


def _wrong_magic(judged: Judged, magic: int) -> Damage:
    return _readable(judged, "magic", DamageCause.WRONG_MAGIC(magic=magic))


def _wrong_length(judged: Judged, stated_size: int) -> Damage:
    size = judged.facts.size
    if stated_size:
        return _readable(judged, "length", DamageCause.WRONG_LENGTH(claimed=stated_size, size=size))
    return _readable(judged, "length", DamageCause.TOO_SHORT(size=size))


def _readable(judged: Judged, field: str, reason: Reason) -> Damage:
    facts = judged.facts
    first = facts.first_offset if facts.tells_first_offset else None
    return Damage(Kind.BATCH_HEADER, facts.position, facts.end, reason, first, facts.last_offset, field, judged)
