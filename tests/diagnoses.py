"""Diagnoses of brokers that do not exist: many partitions, some in trouble, with names of any kind."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from klogtool.doctor.answers import (
    Ahead,
    Diagnosis,
    Option,
    Prospect,
    SegmentDrawn,
    Starts,
    Strategy,
    Trouble,
    What,
    Work,
)
from klogtool.verify.findings import Severity
from klogtool.verify.stops import Stop, StopOutcome

LOG_DIRS = ("/var/lib/kafka/data-0", "/var/lib/kafka/data-1")
TOPICS = ("orders", "payments.settled", "__consumer_offsets", "clickstream-enriched.v2", "inventory_updates")
SEGMENTS, HOUR_MS, FIRST_MS, STEP = 60, 3_600_000, 1_795_000_000_000, 1_666_667
LOOK_FIRST = ("is another replica of this partition whole? Then a broker can fetch all of it again",)
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="a()">\n&amp;\x1b[31m\u202e\udcff\'"]]>-->'
Text = Callable[[str], str]


def unchanged(text: str) -> str:
    return text


def make_diagnosis(partitions: int, troubled: int, *, of: Text = unchanged) -> Diagnosis:
    """One that is the same each time. of: what becomes of each text that comes from a disk."""
    chance = random.Random(23)
    log_dirs = tuple(map(of, LOG_DIRS))
    topics = [of(topic).replace("/", "|") for topic in TOPICS]
    paths = [f"{log_dirs[n % 2]}/{topics[n % 5]}{n // 7}-{n % 12}" for n in range(partitions)]
    prospects = [_prospect(path, chance, is_troubled=n < troubled) for n, path in enumerate(paths)]
    troubles = [_trouble(n, prospect, chance, of) for n, prospect in enumerate(prospects[:troubled])]
    notes = (of("no log dir here has __cluster_metadata-0"),)
    starts = Starts.LOSES_DATA if troubled else Starts.YES
    return Diagnosis("4.3.1", log_dirs, starts, tuple(troubles), tuple(prospects), notes, 123.4)


def _prospect(path: str, chance: random.Random, *, is_troubled: bool) -> Prospect:
    end, size, segments = chance.randrange(10**9, 10**10), chance.randrange(10**12), chance.randrange(1, 300)
    drawn = tuple(_walk_drawn(end, chance)) if is_troubled else ()
    work = Work.CUT if is_troubled else chance.choice([Work.CLEAN, Work.REBUILT])
    return Prospect(path, work, size // segments, size, 0, 0, end, 0.1, segments, drawn)


def _walk_drawn(end: int, chance: random.Random) -> Iterator[SegmentDrawn]:
    for n in range(SEGMENTS):
        base, first = end - (SEGMENTS - 5 - n) * STEP, FIRST_MS + n * HOUR_MS
        yield SegmentDrawn(base, chance.randrange(10**9), base + STEP, first, first + HOUR_MS - 5)


def _trouble(n: int, prospect: Prospect, chance: random.Random, of: Text) -> Trouble:
    ahead = _offline(prospect, of) if n % 5 == 3 else _cut(prospect, chance, of)
    if n % 5 == 4:
        first, last = prospect.segments_drawn[10].base_offset, prospect.segments_drawn[11].base_offset - 1
        gap = Ahead(prospect.path, What.MISSING, of("offsets are missing"), first, last, severity=Severity.WARNING)
        return Trouble(prospect.path, (ahead, gap), LOOK_FIRST, tuple(_walk_options(3 * n, prospect.path)))
    return Trouble(ahead.path, (ahead,), LOOK_FIRST, tuple(_walk_options(3 * n, prospect.path)))


def _offline(prospect: Prospect, of: Text) -> Ahead:
    stop = Stop(StopOutcome.OFFLINE, "CorruptRecordException", of("Record size 12 is less than the minimum (14)"))
    path = f"{prospect.path}/{prospect.segments_drawn[7].base_offset:020d}.log"
    return Ahead(path, What.OFFLINE, of("Record batch is corrupt"), stop=stop)


def _cut(prospect: Prospect, chance: random.Random, of: Text) -> Ahead:
    first, end = int(prospect.log_end_offset or 0), int(prospect.segments_drawn[-1].end_offset or 0)
    detail = of(f"truncated by {chance.randrange(10**9):,} bytes, offsets {first:,} to {end - 1:,}")
    kept = FIRST_MS + 55 * HOUR_MS
    return Ahead(prospect.path, What.TRUNCATED, detail, first, end - 1, end - first, 10**9, 5 * HOUR_MS, kept)


def _walk_options(before: int, path: str) -> Iterator[Option]:
    salvage = f"klogtool salvage {path} --output DIR"
    yield Option("salvage: keep all sound batches", path, salvage, Strategy.DAMAGED_ONLY, 1, number=before + 1)
    recover = f"klogtool recover {path} --apply"
    yield Option("as the broker", path, recover, Strategy.AS_THE_BROKER, 24_334, 5 * HOUR_MS, number=before + 2)
    replica = f"klogtool salvage {path} --replica COPY --output DIR"
    yield Option("fill it from a replica", path, replica, Strategy.NOTHING_LOST, None, None, number=before + 3)
