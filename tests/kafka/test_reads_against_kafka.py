"""What Kafka answers to lookups and fetches in random logs, sound and damaged, and what klogtool answers: the same.

KLOGTOOL_READ_COUNT: how many logs are asked about (default 60), some forty questions each. For more:
`python -m tests.kafka.test_reads_against_kafka --count N --seed S`; `--case SEED.VARIANT` asks about a log again that
was told of.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import pytest

from klogtool.errors import KlogError
from klogtool.render.lookup import epoch_row, offset_row, timestamp_row
from klogtool.render.read import fetched_row
from klogtool.render.txns import state_row
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.unified_log.loaded import LoadedPartition, load
from klogtool.repair.unified_log.reading import Isolation
from klogtool.repair.unified_log.transactions import Status

from .kafka import scratch_folder
from .random_logs import Case, Makers, files_of, walk_cases

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_READ_COUNT", "60"))
# (Kafka's class, klogtool's), as in test_loading_against_kafka.py: what is in a broken wrapper is not looked at.
FORGIVEN = [("OutOfMemoryError", "KafkaException"), ("CorruptRecordException", "KafkaException")]
ISOLATIONS = [isolation.value for isolation in Isolation]
ORACLE_WORDS = ("earliest", "latest", "max", "earliest-local", "latest-tiered")
OFFSET_FIELDS = ("end", "segment", "position", "size", "base_offset", "last_offset", "floor_segment", "index_entry")
READ_FIELDS = ("segment", "position", "base_offset", "size", "sha256", "first_entry_incomplete", "aborted")
TXNS_FIELDS = ("producers", "high_watermark", "last_stable_offset", "first_unstable_offset", "aborted")

Tally: TypeAlias = Counter[str]
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


def walk_sound_cases(makers: Makers, oracle: Any, work: Any, seed: int, count: int) -> Iterator[Case]:
    """Logs of all shapes as Kafka appends them, some compacted, with a high watermark or a log start in the middle."""
    for n in range(seed, seed + count):
        rng = random.Random(f"read:{n}")
        bench = makers.cases.Bench(oracle, rng, work / "made", 0)
        try:
            transactions = dict(makers.damage.TXN)
            shape = rng.choice([*SHAPES, *([transactions] * 6)])
            if shape == transactions and rng.random() < 0.5:
                shape = shape | {"end_open": 1.0, "transactional": 4, "batches": 45}
            folder, config, story = makers.cases.reading_log(bench, **shape)
            args: dict[str, Any] = {"now_ms": makers.logs.T0, "config": config}
            bases, end = makers.cases.segments(folder), makers.cases.next_offset(folder)
            if rng.random() < 0.15:
                story += "; " + makers.cases.hole(bench, folder, config)
            if rng.random() < 0.5:
                args["high_watermark"] = rng.randint(bases[0], end)
            if rng.random() < 0.3:
                args["log_start_offset"] = rng.randint(bases[0], end)
            if rng.random() < 0.15:
                side = rng.choice(sorted(folder.glob("*.*index")))
                side.unlink()
                story += f"; {side.name} is gone"
            yield Case(f"{n}.sound", folder, args, [str(shape), story])
        except RuntimeError:  # a random log that Kafka does not append; the next one
            continue
        finally:
            shutil.rmtree(work, ignore_errors=True)


def walk_damaged_cases(makers: Makers, oracle: Any, work: Any, seed: int, count: int) -> Iterator[Case]:
    """Those of the loading tests, mostly as after a clean stop, so that nothing is mended before the questions."""
    for case in walk_cases(makers, oracle, work, seed, count):
        rng = random.Random(f"read:{case.told}")
        if rng.random() < 0.75:
            case.args["clean"] = True
            case.args.pop("recovery_point", None)
        if rng.random() < 0.3:
            case.args["high_watermark"] = rng.randint(0, 60)
        yield case


# --- comparing --------------------------------------------------------------------------------------------------------


def simple_name(error: Row) -> str:
    name: str = error["class"].rsplit(".", 1)[-1].rsplit("$", 1)[-1]
    return name


def given_of(args: Row) -> Circumstances:
    return Circumstances(
        args["now_ms"],
        settings={name: str(value) for name, value in args["config"].items()},
        recovery_point=args.get("recovery_point"),
        log_start_offset=args.get("log_start_offset"),
        high_watermark=args.get("high_watermark"),
        last_stop="clean" if args.get("clean", True) else "unclean",
    )


def compared(asked: object, answer: Callable[[], Row], kafkas: Row, fields: tuple[str, ...]) -> Iterator[str]:
    """One question: the fields that Kafka's answer has, or the class of its refusal."""
    refused = simple_name(kafkas["error"]) if "error" in kafkas else None
    try:
        ours = answer()
    except KlogError as error:
        if error.kafka_class != refused and (refused, error.kafka_class) not in FORGIVEN:
            yield f"{asked}: klogtool refuses ({error.kafka_class}: {error}), Kafka: {kafkas}"
        return
    if refused is not None:
        yield f"{asked}: klogtool {ours}, Kafka refuses: {kafkas['error']}"
        return
    for name in fields:
        if name in kafkas and ours.get(name) != kafkas[name]:
            yield f"{asked}: {name}: klogtool {ours.get(name)}, Kafka {kafkas[name]}"


class Questioner:
    """Asks both about one log. Each question to Kafka gets a copy of its own."""

    def __init__(self, oracle: Any, case: Case, tally: Tally) -> None:
        self.oracle, self.case, self.tally = oracle, case, tally
        self.rng = random.Random(f"ask:{case.told}")

    def differences(self) -> Iterator[str]:
        case, before = self.case, files_of(self.case.dir)
        bases = sorted(int(name[:20]) for name in before if name.endswith(".log") and name[:20].isdigit())
        state = self.ask("lookup-offset", offsets=[])
        end = state.get("state", {}).get("log_end_offset", 50)
        loaded = self.loaded(state)
        if loaded is None or isinstance(loaded, str):
            yield from [loaded] if loaded else []
            return
        self.tally["loaded"] += 1
        yield from self.by_offset(loaded, some_offsets(self.rng, bases, end))
        yield from self.by_timestamp(loaded, some_timestamps(self.rng, 1_700_000_000_000))
        yield from self.by_epoch(loaded)
        yield from self.fetches(loaded, some_reads(self.rng, some_offsets(self.rng, bases, end)))
        yield from self.transactions(loaded)
        if files_of(case.dir) != before:
            yield "klogtool changed a file"

    def loaded(self, state: Row) -> LoadedPartition | str | None:
        """What klogtool loads; None if both refuse, or how they differ."""
        refused = simple_name(state["error"]) if "error" in state else None
        try:
            loaded = load(str(self.case.dir), given_of(self.case.args), jobs=1)
        except KlogError as error:
            self.tally[f"not loaded: {refused}"] += 1
            is_same = refused == error.kafka_class or (refused, error.kafka_class) in FORGIVEN
            return (
                None if is_same else f"klogtool does not load ({error.kafka_class}: {error}), Kafka: {state['error']}"
            )
        return loaded if refused is None else f"Kafka does not load: {state['error']}"

    def ask(self, op: str, **more: Any) -> Row:
        """Kafka's answer."""
        folder = self.case.dir.parent.parent / "asked" / self.case.dir.name
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.parent.mkdir(parents=True)
        shutil.copytree(self.case.dir, folder)  # with the times of the files
        answer: Row = self.oracle.ask(op, dir=str(folder), **{"clean": True, **self.case.args}, **more)
        return answer

    def by_offset(self, loaded: LoadedPartition, offsets: list[int]) -> Iterator[str]:
        for offset, kafkas in self.paired("lookup-offset", "lookups", offsets=offsets):
            yield from compared(
                f"offset {offset}",
                lambda offset=offset: offset_row(loaded.lookup_offset(offset, explain=True), explain=True),
                kafkas,
                OFFSET_FIELDS,
            )

    def by_timestamp(self, loaded: LoadedPartition, timestamps: list[int | str]) -> Iterator[str]:
        for asked, kafkas in self.paired("lookup-timestamp", "lookups", timestamps=timestamps):
            yield from compared(
                f"timestamp {asked}",
                lambda asked=asked: timestamp_row(asked, loaded.lookup_timestamp(asked), 0, explain=True),
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
        is_whole = self.case.told.endswith("sound") and "is gone" not in " ".join(self.case.story)
        if is_whole and "error" not in kafkas:
            ours = {txn.producer_id for txn in loaded.transactions() if txn.status is Status.OPEN}
            open_there = {row["producer_id"] for row in told["producers"] if row["txn_first_offset"] is not None}
            if not ours <= open_there:
                yield f"open transactions: klogtool {ours}, Kafka {open_there}"

    def paired(self, op: str, field: str, **questions: list[Any]) -> Iterator[tuple[Any, Any]]:
        """Each question with Kafka's answer."""
        answer = self.ask(op, **questions)
        if field not in answer:
            raise AssertionError(f"{op} refused: {answer.get('error')}")
        (asked,) = questions.values()
        self.tally[op] += len(asked)
        for _, kafkas in zip(asked, answer[field], strict=True):
            self.tally["refusals"] += isinstance(kafkas, dict) and "error" in kafkas
        yield from zip(asked, answer[field], strict=True)


KINDS = {"sound": walk_sound_cases, "damaged": walk_damaged_cases}


@pytest.mark.parametrize("kind", KINDS)
def test_random_questions_about_random_logs(kind: str) -> None:
    tally: Tally = Counter()
    told = list(run(kind, seed=1, count=COUNT // len(KINDS), tally=tally))
    assert not told, f"{len(told)} differ ({dict(tally)}); the first:\n{told[0]}"
    assert tally["loaded"], tally


def run(kind: str, *, seed: int, count: int, tally: Tally, only: str | None = None) -> Iterator[str]:
    """What differs, each told."""
    makers = Makers()
    work = scratch_folder("klogtool-read-")
    try:
        with makers.cases.Oracle() as oracle:
            for case in KINDS[kind](makers, oracle, work / "work", seed, count):
                if only in (None, case.told):
                    for difference in Questioner(oracle, case, tally).differences():
                        yield f"case {case.told}: {case.story} {case.args}\n    {difference}"
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--case", metavar="SEED.VARIANT")
    given = parser.parse_args(args)
    seed = int(given.case.split(".")[0]) if given.case else given.seed
    count = (1 if given.case.endswith("sound") else 12) if given.case else given.count
    status = 0
    for kind in [given.kind] if given.kind else KINDS:
        tally: Tally = Counter()
        for told in run(kind, seed=seed, count=count, tally=tally, only=given.case):
            status = 1
            print(told, flush=True)
        print(kind, dict(tally.most_common()), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
