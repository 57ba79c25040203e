"""What Kafka answers to lookups and fetches in random logs, sound and damaged, and what klogtool answers: the same.

KLOGTOOL_READ_COUNT: how many logs are asked about (default 60), some forty questions each. For more:
`python -m tests.kafka.test_reads_against_kafka --count N --seed S [--only KIND]`; `--case SEED.VARIANT` asks about a
log again that was told of.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.broker.unified_log.log_transactions import Status
from klogtool.broker.unified_log.reading import Isolation
from klogtool.errors import KlogError
from klogtool.render.lookup import epoch_row, offset_row, timestamp_row
from klogtool.render.read import fetched_row
from klogtool.render.txns import state_row

from .comparing import asked, outcome, refusal
from .folders import bases_of, files_of
from .live import Question, Tally, agreed, parser_for, report
from .random_logs import Case, Made, Makers, Start, walk_damaged, walk_starts

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_READ_COUNT", "60"))
OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
SNAPPY_ERROR = "org.xerial.snappy.SnappyError"
GONE = "is gone"  # in the story of a log that lacks a file
T0 = 1_700_000_000_000  # of the makers' logs, in ms
ISOLATIONS = [isolation.value for isolation in Isolation]
ORACLE_WORDS = ("earliest", "latest", "max", "earliest-local", "latest-tiered")
OFFSET_FIELDS = ("end", "segment", "position", "size", "base_offset", "last_offset", "floor_segment", "index_entry")
READ_FIELDS = ("segment", "position", "base_offset", "size", "sha256", "first_entry_incomplete", "aborted")
TXNS_FIELDS = ("producers", "high_watermark", "last_stable_offset", "first_unstable_offset", "aborted")

Row: TypeAlias = Mapping[str, Any]


# --- questions --------------------------------------------------------------------------------------------------------


def some_offsets(rng: random.Random, bases: list[int], end: int) -> list[int]:
    """At the ends of the log and of segments, and anywhere."""
    near = [offset + step for offset in (*bases, end) for step in (-1, 0, 1)]
    chosen = rng.sample(near, min(8, len(near)))
    return [*chosen, *(rng.randint(min(bases, default=0), max(end, 1)) for _ in range(6)), rng.choice((-1, 2**40))]


def some_timestamps(rng: random.Random, t0: int) -> list[int | str]:
    near = [t0 + rng.randint(-30, 60) * 1000 + rng.choice((-1, 0, 1)) for _ in range(8)]
    return [*ORACLE_WORDS, *near, *rng.sample((0, -1, -2, -3, -4, -5, -6, -7, t0 + 10**12, 2**62, -(2**63)), 4)]


def some_reads(rng: random.Random, offsets: list[int]) -> list[dict[str, Any]]:
    return [
        {
            "offset": offset,
            "max_bytes": rng.choice((0, 1, 60, 100, 250, 1000, 100_000, 2**31 - 1, -1)),
            "min_one_message": rng.random() < 0.5,
            "isolation": rng.choice((*ISOLATIONS, "read_committed")),
        }
        for offset in offsets
    ]


# --- logs -------------------------------------------------------------------------------------------------------------

SHAPES: list[dict[str, Any]] = [
    {},
    {"gaps": 0.3},
    {"magics": (0, 1, 2)},
    {"magics": (0, 1)},
    {"magics": (0,)},
    {"codecs": ("gzip", "lz4", "snappy", "zstd")},
    {"times": "rise"},
    {"times": "jitter", "batches": 45},
    {"times": "fall"},
    {"times": "future"},
    {"append_time": 1.0, "magics": (1, 2)},
    {"magics": (1, 2), "epochs": 0.25},
    {"epochs": 0.25},
]


def walk_sound(makers: Makers, oracle: Any, work: Path, seed: int, count: int) -> Iterator[Case]:
    """Logs of all shapes as Kafka appends them, some compacted, with a high watermark or a log start in the middle."""

    def make(bench: Any, rng: random.Random) -> Made:
        transactions = dict(makers.damage.TXN)
        shape = rng.choice([*SHAPES, *([transactions] * 6)])
        if shape == transactions and rng.random() < 0.5:
            shape = shape | {"end_open": 1.0, "transactional": 4, "batches": 45}
        folder, config, told = makers.cases.reading_log(bench, **shape)
        story = [str(shape), told]
        if rng.random() < 0.15:
            story.append(makers.cases.hole(bench, folder, config))
        return folder, config, story

    for start in walk_starts(makers, oracle, work, "read", seed, count, make, of_a_log=1):
        yield _sound(makers, start)


def _sound(makers: Makers, start: Start) -> Case:
    rng, story = start.rng, list(start.about)
    bases, end = makers.cases.segments(start.dir), makers.cases.next_offset(start.dir)
    args: dict[str, Any] = {"clean": True, "now_ms": makers.logs.T0, "config": start.config}
    if rng.random() < 0.5:
        args["high_watermark"] = rng.randint(bases[0], end)
    if rng.random() < 0.3:
        args["log_start_offset"] = rng.randint(bases[0], end)
    if rng.random() < 0.15:
        side = rng.choice(sorted(start.dir.glob("*.*index")))
        side.unlink()
        story.append(f"{side.name} {GONE}")
    return Case(start.told, start.dir, args, story, rng)


def walk_mostly_clean(makers: Makers, oracle: Any, work: Path, seed: int, count: int) -> Iterator[Case]:
    """Those of the loading tests, mostly as after a clean stop, so that nothing is mended before the questions."""
    for case in walk_damaged(makers, oracle, work, seed, count):
        case.args.setdefault("clean", True)
        if case.rng.random() < 0.75:
            case.args["clean"] = True
            case.args.pop("recovery_point", None)
        if case.rng.random() < 0.3:
            case.args["high_watermark"] = case.rng.randint(0, 60)
        yield case


# --- comparing --------------------------------------------------------------------------------------------------------


def compared(question: object, answer: Callable[[], Row], kafkas: Row, fields: tuple[str, ...]) -> Iterator[str]:
    """One question: the fields that Kafka's answer has, or the class of its refusal."""
    try:
        ours = answer()
    except KlogError as error:
        yield from (f"{question}: {found}" for found in refusal(error, kafkas))
        return
    if "error" in kafkas:
        yield f"{question}: klogtool {ours}, Kafka refuses: {kafkas['error']}"
        return
    for name in fields:
        if name in kafkas and ours.get(name) != kafkas[name]:
            yield f"{question}: {name}: klogtool {ours.get(name)}, Kafka {kafkas[name]}"


class Questioner:
    """Asks both about one log, Kafka each time about a copy of its own. is_whole: nothing is damaged or missing."""

    def __init__(self, oracle: Any, case: Case, tally: Tally, is_whole: bool) -> None:
        self.oracle, self.case, self.tally, self.is_whole = oracle, case, tally, is_whole
        self.rng = random.Random(f"ask:{case.told}")

    def differences(self) -> Iterator[str]:
        before = files_of(self.case.dir)
        bases, state = bases_of(before), self.ask("lookup-offset", offsets=[])
        end = state.get("state", {}).get("log_end_offset", 50)
        try:
            loaded = load(str(self.case.dir), self.case.circumstances, jobs=1)
        except KlogError as error:
            self.tally[f"not loaded: {outcome(state)}"] += 1
            yield from (f"loading: {found}" for found in refusal(error, state))
            return
        if "error" in state:
            yield f"Kafka does not load: {state['error']}"
            return
        self.tally["loaded"] += 1
        yield from self.by_offset(loaded, some_offsets(self.rng, bases, end))
        yield from self.by_timestamp(loaded, some_timestamps(self.rng, T0))
        yield from self.by_epoch(loaded)
        yield from self.fetches(loaded, some_reads(self.rng, some_offsets(self.rng, bases, end)))
        yield from self.transactions(loaded)
        if files_of(self.case.dir) != before:
            yield "klogtool changed a file"

    def ask(self, op: str, **more: Any) -> Row:
        return asked(self.oracle, op, self.case, **more)[0]

    def by_offset(self, loaded: LoadedPartition, offsets: list[int]) -> Iterator[str]:
        for offset, kafkas in self.paired("lookup-offset", "lookups", offsets=offsets):
            yield from compared(
                f"offset {offset}",
                lambda offset=offset: offset_row(loaded.lookup_offset(offset, explain=True), explain=True),
                kafkas,
                OFFSET_FIELDS,
            )

    def by_timestamp(self, loaded: LoadedPartition, timestamps: list[int | str]) -> Iterator[str]:
        for asked_for, kafkas in self.paired("lookup-timestamp", "lookups", timestamps=timestamps):
            yield from compared(
                f"timestamp {asked_for}",
                lambda at=asked_for: timestamp_row(at, loaded.lookup_timestamp(at), 0, explain=True, doubts=()),
                kafkas,
                ("timestamp", "found"),
            )

    def by_epoch(self, loaded: LoadedPartition) -> Iterator[str]:
        epochs = [-1, *range(9), self.rng.randint(9, 100), 2**31 - 1, -(2**31)]
        for epoch, row in self.paired("epochs", "end_offset_for_epoch", epochs=epochs):
            kafkas = dict(zip(("leader_epoch", "found_epoch", "end_offset"), row, strict=True))
            ours = epoch_row(loaded.end_offset_for_epoch(epoch))
            if ours != kafkas:
                yield f"epoch {epoch}: klogtool {ours}, Kafka {kafkas}"

    def fetches(self, loaded: LoadedPartition, reads: list[dict[str, Any]]) -> Iterator[str]:
        for read, kafkas in self.paired("read", "reads", reads=reads):
            isolation = Isolation(read["isolation"])

            def answer(read: Row = read, isolation: Isolation = isolation) -> Row:
                one_whole = read["min_one_message"]
                found = loaded.read(read["offset"], read["max_bytes"], min_one_message=one_whole, isolation=isolation)
                return fetched_row(found, isolation)

            yield from compared(read, answer, kafkas, READ_FIELDS)

    def transactions(self, loaded: LoadedPartition) -> Iterator[str]:
        """Producers and offsets; and of what the batches tell that those are open which a broker holds for open."""
        kafkas = self.ask("txns")
        told = kafkas if "error" in kafkas else kafkas["txns"]
        self.tally["txns"] += 1
        yield from compared("txns", lambda: state_row(loaded.transaction_state()), told, TXNS_FIELDS)
        if self.is_whole and "error" not in kafkas:
            ours = {txn.producer_id for txn in loaded.transactions() if txn.status is Status.OPEN}
            open_there = {row["producer_id"] for row in told["producers"] if row["txn_first_offset"] is not None}
            if not ours <= open_there:
                yield f"open transactions: klogtool {ours}, Kafka {open_there}"

    def paired(self, op: str, field: str, **questions: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Each question with Kafka's answer."""
        answer = self.ask(op, **questions)
        if field not in answer:
            raise AssertionError(f"{op} refused: {answer.get('error')}")
        (questions_put,) = questions.values()
        self.tally[op] += len(questions_put)
        answers = answer[field]
        ended_by = answer.get("error", {}).get("class")
        if ended_by == OUT_OF_MEMORY:  # it takes what a damaged size claims; here it ended
            answers = answers[:-1]
            self.tally["out of memory"] += 1
        elif ended_by == SNAPPY_ERROR:  # no exception, so the oracle ends with the question that it belongs to
            answers = [*answers[:-1], {**answers[-1], "error": answer["error"]}]
        if ended_by in (OUT_OF_MEMORY, SNAPPY_ERROR):
            questions_put = questions_put[: len(answers)]
        for _, kafkas in zip(questions_put, answers, strict=True):
            self.tally["refusals"] += isinstance(kafkas, dict) and "error" in kafkas
        yield from zip(questions_put, answers, strict=True)


def check_sound(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    yield from Questioner(oracle, case, tally, is_whole=GONE not in " ".join(case.story)).differences()


def check_damaged(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    yield from Questioner(oracle, case, tally, is_whole=False).differences()


QUESTIONS = {
    "sound": Question(walk_sound, check_sound),
    "damaged": Question(walk_mostly_clean, check_damaged),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUESTIONS)
def test_random_questions_about_random_logs(kind: str) -> None:
    tally = agreed(QUESTIONS[kind], COUNT // len(QUESTIONS))
    assert tally["loaded"], tally


if __name__ == "__main__":
    sys.exit(report(QUESTIONS, parser_for(__doc__, QUESTIONS, count=300).parse_args()))
