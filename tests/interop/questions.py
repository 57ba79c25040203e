"""The questions that both sources are asked: every option of Spark's kafka source, alone and mixed, right and wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from served import FIRST_OFFSETS, MADE_PARTITIONS, START_MS, STEP_MS, TOPICS

Question = dict[str, Any]
RANDOM_QUESTIONS = 60
MADE_END = 2000  # about
COMMITTED = {"kafka.isolation.level": "read_committed"}


def questions() -> dict[str, Question]:
    """By name; each has `options`, and `stream` if it is one."""
    named = {name: {"options": options} for name, options in [*_whole(), *_which(), *_offsets(), *_times(), *_odd()]}
    named |= {name: {"options": options, "stream": True} for name, options in _streams()}
    return named | {f"random {seed}": {"options": _random(random.Random(seed))} for seed in range(RANDOM_QUESTIONS)}


def _whole() -> Iterator[tuple[str, dict[str, str]]]:
    """All of a topic."""
    for topic in ("made", *TOPICS):
        for level in ("read_uncommitted", "read_committed"):
            options = {"subscribe": topic, "includeHeaders": "true", "kafka.isolation.level": level}
            yield f"all of {topic}, {level}", options
    yield "without headers", {"subscribe": "made"}


def _which() -> Iterator[tuple[str, dict[str, str]]]:
    """Topics and partitions."""
    yield "two topics", {"subscribe": "txns, codecs"}
    yield "a topic twice", {"subscribe": "txns,txns"}
    yield "no such topic", {"subscribe": "nowhere"}
    yield "one topic of two", {"subscribe": "txns,nowhere"}
    yield "no topic", {"subscribe": " , "}
    yield "a pattern", {"subscribePattern": "magic.*"}
    yield "a pattern inside a name", {"subscribePattern": "xn"}
    yield "a pattern that ends", {"subscribePattern": "s$"}
    yield "a pattern of nothing", {"subscribePattern": "nowhere.*"}
    yield "an empty pattern", {"subscribePattern": " "}
    yield "no pattern", {"subscribePattern": "("}
    yield "one partition", {"assign": '{"made": [1]}'}
    yield "partitions", {"assign": '{"made": [0, 2], "codecs": [3]}'}
    yield "no such partition", {"assign": '{"made": [1, 7]}'}
    yield "no such topic's partition", {"assign": '{"nowhere": [0]}'}
    yield "no JSON", {"assign": "made"}
    yield "other JSON", {"assign": '{"made": 1}'}
    yield "two strategies", {"assign": '{"made": [1]}', "subscribe": "made"}


def _offsets() -> Iterator[tuple[str, dict[str, str]]]:
    """Where to begin and to end."""
    for which in ("startingOffsets", "endingOffsets"):
        for word in ("earliest", "latest", "EARLIEST", "Latest", "someday"):
            yield f"{which} {word}", {"subscribe": "txns", which: word}
        for name, each in _jsons().items():
            yield f"{which} {name}", {"subscribe": "txns", which: each}
            yield f"{which} {name}, loss allowed", {"subscribe": "txns", which: each, "failOnDataLoss": "false"}
            yield f"{which} {name}, committed", {"subscribe": "txns", which: each, **COMMITTED}
    both = {"startingOffsets": _json([7, -2]), "endingOffsets": _json([38, -1])}
    yield "from and to", {"subscribe": "txns", **both}
    yield "from behind to", {"subscribe": "txns", "startingOffsets": _json([9, 0]), "endingOffsets": _json([8, 5])}
    yield "from is to", {"subscribe": "txns", "startingOffsets": _json([9, 0]), "endingOffsets": _json([9, 5])}
    yield (
        "others to than from",
        {"subscribe": "txns", "startingOffsets": _json([9, 0]), "endingOffsets": '{"txns":{"0":9}}'},
    )
    for start in (0, 3, 40, 89, 90, 95, 200):
        for allowed in ("true", "false"):
            options = {"subscribe": "start", "startingOffsets": _json([start], "start"), "failOnDataLoss": allowed}
            yield f"log start 90, from {start}, loss is an error: {allowed}", options
    for start in (0, 1, 15, 16, 63, 120, 186, 187):
        yield f"compacted from {start}", {"subscribe": "compacted", "startingOffsets": _json([start], "compacted")}
        yield f"compacted to {start}", {"subscribe": "compacted", "endingOffsets": _json([start], "compacted")}


def _jsons() -> dict[str, str]:
    return {
        "in the middle": _json([11, 20]),
        "-2 and an offset": _json([-2, 20]),
        "-1 and an offset": _json([-1, 20]),
        "0 and the last": _json([0, 38]),
        "behind the end": _json([62, 38]),
        "far behind the end": _json([1000, 5]),
        "below": _json([-3, 5]),
        "of one of two": '{"txns": {"0": 11}}',
        "of three of two": '{"txns": {"0": 11, "1": 5, "2": 5}}',
        "of another topic": '{"made": {"0": 11}}',
        "no JSON": '{"txns":',
        "other JSON": '{"txns": [1, 2]}',
    }


def _json(offsets: Sequence[int], topic: str = "txns") -> str:
    return json.dumps({topic: {str(n): offset for n, offset in enumerate(offsets)}})


def _times() -> Iterator[tuple[str, dict[str, str]]]:
    """By timestamp."""
    middle, late, early = START_MS + 900 * STEP_MS, START_MS * 2, 1
    for which in ("starting", "ending"):
        for name, time in {"in the middle": middle, "too late": late, "early": early, "zero": 0}.items():
            one, each = {f"{which}Timestamp": str(time)}, {f"{which}OffsetsByTimestamp": _json([time] * 3, "made")}
            for how, options in {"": one, " of each": each}.items():
                yield f"{which} {name}{how}", {"subscribe": "made", **options}
                yield f"{which} {name}{how}, committed", {"subscribe": "made", **options, **COMMITTED}
                if which == "starting":
                    lenient = {**options, "startingOffsetsByTimestampStrategy": "latest"}
                    yield f"starting {name}{how}, else latest", {"subscribe": "made", **lenient}
                    yield f"starting {name}{how}, else latest, committed", {"subscribe": "made", **lenient, **COMMITTED}
    yield "times of one of three", {"subscribe": "made", "startingOffsetsByTimestamp": '{"made": {"0": 5}}'}
    yield "no time", {"subscribe": "made", "startingTimestamp": "noon"}
    yield "strategy", {"subscribe": "made", "startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "never"}
    over = {"startingTimestamp": str(middle), "startingOffsets": _json([11, 20], "txns")}
    yield "a time counts more", {"subscribe": "made", **over}
    each = {"startingOffsetsByTimestamp": _json([middle] * 3, "made"), "startingOffsets": "earliest"}
    yield "times of each count more", {"subscribe": "made", **each}
    for topic in ("magic-0", "magic-1", "magic-1-append", "codecs", "codecs-append", "compacted", "start", "magics"):
        yield f"{topic} from a time on", {"subscribe": topic, "startingTimestamp": "1700000000500", **_else_latest()}
        yield f"{topic} up to a time", {"subscribe": topic, "endingTimestamp": "1700000000500"}


def _else_latest() -> dict[str, str]:
    return {"startingOffsetsByTimestampStrategy": "latest"}


def _odd() -> Iterator[tuple[str, dict[str, str]]]:
    """The rest."""
    for name, values in {
        "minPartitions": ("1", "7", "100", "0", "-1", "many"),
        "maxRecordsPerPartition": ("11", "300", "100000", "0", "few"),
        "includeHeaders": ("TRUE", "false", "perhaps"),
        "failOnDataLoss": ("False", "perhaps"),
        "kafka.isolation.level": ("read_nothing",),
        "maxOffsetsPerTrigger": ("5",),
        "groupIdPrefix": ("x",),
        "kafka.max.poll.records": ("3",),
        "kafka.auto.offset.reset": ("earliest",),
        "kafka.enable.auto.commit": ("false",),
        "kafka.key.deserializer": ("x",),
        "kafka.value.deserializer": ("x",),
        "kafka.interceptor.classes": ("x",),
    }.items():
        for value in values:
            yield f"{name}={value}", {"subscribe": "txns" if value == "11" else "made", name: value}
    yield "both", {"subscribe": "made", "minPartitions": "50", "maxRecordsPerPartition": "30", **COMMITTED}
    yield "names in capitals", {"SUBSCRIBE": "txns", "STARTINGOFFSETS": _json([11, 20]), "INCLUDEHEADERS": "true"}
    trigger = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "9"}
    yield "least above most", {"subscribe": "txns", **trigger}


def _streams() -> Iterator[tuple[str, dict[str, str]]]:
    earliest = {"startingOffsets": "earliest"}
    yield "stream of all", {"subscribe": "made", **earliest, "includeHeaders": "true"}
    yield "stream from latest on", {"subscribe": "made"}
    yield "stream of committed", {"subscribe": "made", **earliest, **COMMITTED}
    yield "stream from offsets on", {"subscribe": "txns", "startingOffsets": _json([11, -1])}
    yield "stream from a time on", {"subscribe": "made", "startingTimestamp": str(START_MS + 900 * STEP_MS)}
    for topic, most in (("epochs", "7"), ("made", "800"), ("made", "100000")):
        yield f"stream by {most}", {"subscribe": topic, **earliest, "maxOffsetsPerTrigger": most}
    yield "stream by 900 of two topics", {"subscribe": "made,txns", **earliest, "maxOffsetsPerTrigger": "900"}
    yield "stream with an end", {"subscribe": "made", "endingOffsets": "latest"}
    yield "stream with an end by time", {"subscribe": "made", "endingTimestamp": "5"}


def _random(rng: random.Random) -> dict[str, str]:
    """Some of `made`, by offsets or times in any mixture, most of them possible."""
    partitions = sorted(rng.sample(range(MADE_PARTITIONS), rng.randint(1, MADE_PARTITIONS)))
    options = {"assign": json.dumps({"made": partitions}), "includeHeaders": rng.choice(("true", "false"))}
    options |= {"kafka.isolation.level": rng.choice(("read_uncommitted", "read_committed"))}
    options |= _bound(rng, "starting", partitions) | _bound(rng, "ending", partitions)
    if rng.random() < 0.7:
        options["startingOffsetsByTimestampStrategy"] = rng.choice(("latest", "error"))
    if rng.random() < 0.3:
        options["minPartitions"] = str(rng.randint(1, 20))
    if rng.random() < 0.3:
        options["maxRecordsPerPartition"] = str(rng.randint(60, 800))
    if rng.random() < 0.5:
        options["failOnDataLoss"] = "false"
    return options


def _bound(rng: random.Random, which: str, partitions: Sequence[int]) -> dict[str, str]:
    # Starts lie in the first half, ends in the second one, and now and then they do not.
    part = 0 if which == "starting" else MADE_END // 2
    offsets = {n: FIRST_OFFSETS[n] + part + rng.randint(-30, MADE_END // 2 + 50) for n in partitions}
    kind = rng.choice(("none", "offsets", "time", "times"))
    if kind == "offsets":
        special = -2 if which == "starting" else -1
        chosen = {n: special if rng.random() < 0.2 else max(offset, 0) for n, offset in offsets.items()}
        return {f"{which}Offsets": _each(chosen)}
    if kind == "time":
        return {f"{which}Timestamp": str(START_MS + max(offsets.values()) * STEP_MS)}
    if kind == "times":
        return {f"{which}OffsetsByTimestamp": _each({n: START_MS + at * STEP_MS for n, at in offsets.items()})}
    return {}


def _each(numbers: Mapping[int, int]) -> str:
    return json.dumps({"made": {str(n): number for n, number in numbers.items()}})
