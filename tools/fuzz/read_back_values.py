"""Values of JSON changed by chance, and files made of them again, with checksums that are right."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from klogtool.broker.file_facts import sum_of

LONG = "@"  # stands for a number of more digits than Python reads
DEEP = "#"  # stands for a value that is nested deeper than Python follows
NUMBERS = (0, 1, -1, 5, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, -(2**63), 10**25, 1.5, -0.0, float("nan"), 1e308)
TEXTS = ("", "x", "a\0b", "\ud800", "\udcff", "..", ".", "/", "\x1b[31m", "t-0", "x" * 70_000, "a\nb", "{}", "null")
PATHS = (
    "../outside/x",
    "../../outside/x",
    "../../../outside/folder",
    "link/x",
    "t-0/link/x",
    "@BOX/outside/x",
    "@BOX/outside",
    "@BOX/inside",
    "@BOX/inside/logs/../../outside/x",
    "/dev/zero",
    "/etc/passwd",
)
EMPTY: tuple[Any, ...] = (None, True, False, [], {}, [[]], {"": 0}, [None])
Value = Any


class Form(Enum):
    """How a file is made of values."""

    JSON = "one value"
    LINES = "lines of JSON"
    PLAN = "lines, each with its sum"
    FLEET = "lines, and an end with a sum"
    PAGE = "a value in a page"


BEGIN, END = b'<script type="application/json" id="answer">', b"</script>"


def read(data: bytes, form: Form) -> list[Value]:
    """The values of a file that is whole."""
    match form:
        case Form.JSON:
            return [json.loads(data)]
        case Form.PAGE:
            return [json.loads(data.split(BEGIN)[1].split(END)[0])]
        case Form.FLEET:
            return [json.loads(line) for line in data.splitlines()[:-1]]
        case _:
            return [json.loads(line) for line in data.splitlines()]


def build(rows: list[Value], form: Form, whole: bytes) -> bytes:
    """A file of these values. whole: the one that they were read from."""
    if form is Form.PAGE:
        text = b"".join(map(line_of, rows)).replace(b"<", b"\\u003c")
        return whole.split(BEGIN)[0] + BEGIN + text + END + whole.split(BEGIN)[1].partition(END)[2]
    lines = [summed(row) if form is Form.PLAN else line_of(row) for row in rows]
    data = b"".join(line + b"\n" for line in lines)
    if form is Form.FLEET:
        sums = hashlib.blake2b(data, digest_size=16).hexdigest()
        data += json.dumps({"type": "end", "lines": len(lines), "sum": sums}).encode() + b"\n"
    return data


def line_of(row: Value) -> bytes:
    text = json.dumps(row, separators=(",", ":"))
    text = text.replace(f'"{LONG}"', "9" * 5000)
    return text.replace(f'"{DEEP}"', "[" * 50_000 + "]" * 50_000).encode()


def summed(row: Value) -> bytes:
    """A line of a plan, as if klogtool had saved it."""
    if not isinstance(row, dict):
        return line_of(row)
    line = line_of({name: value for name, value in row.items() if name != "sum"})
    return line[:-1] + b',"sum":"%b"}' % sum_of(line).encode()


# ---------------------------------------------------------------- changes


def walk_places(value: Value, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is, in depth."""
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield from walk_places(item, (*place, name))


def at(value: Value, place: tuple[Any, ...]) -> Value:
    for step in place:
        value = value[step]
    return value


def replace(rng: random.Random, rows: Value, place: tuple[Any, ...], box: str) -> None:
    put(rows, place, odd(rng, at(rows, place), box))


def remove(rng: random.Random, rows: Value, place: tuple[Any, ...], box: str) -> None:
    del at(rows, place[:-1])[place[-1]]


def repeat(rng: random.Random, rows: Value, place: tuple[Any, ...], box: str) -> None:
    around = at(rows, place[:-1])
    if isinstance(around, list):
        around[rng.randrange(len(around) + 1) : 0] = [copy.deepcopy(around[place[-1]])] * rng.choice((1, 1, 2, 500))
    else:
        around[str(rng.choice((*TEXTS, *PATHS))).replace("@BOX", box)] = copy.deepcopy(around[place[-1]])


def exchange(rng: random.Random, rows: Value, place: tuple[Any, ...], box: str) -> None:
    other = rng.choice(list(walk_places(rows)))
    put(rows, place, copy.deepcopy(at(rows, other)))


def rename(rng: random.Random, rows: Value, place: tuple[Any, ...], box: str) -> None:
    """A text is another one wherever it stands, so that what refers to it still does."""
    value = at(rows, place)
    before = value if isinstance(value, str) and rng.random() < 0.7 else place[-1]
    if isinstance(before, str):
        after = rng.choice((*PATHS, *TEXTS[:8], f"link/{before}")).replace("@BOX", box)
        rows[:] = renamed(rows, before, after)


def renamed(value: Value, before: str, after: str) -> Value:
    if isinstance(value, dict):
        return {renamed(name, before, after): renamed(item, before, after) for name, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, before, after) for item in value]
    return after if value == before else value


def put(rows: Value, place: tuple[Any, ...], value: Value) -> None:
    at(rows, place[:-1])[place[-1]] = value


def odd(rng: random.Random, value: Value, box: str) -> Value:
    """Another value: of the same type, more often than not."""
    kind = rng.random()
    if isinstance(value, bool) and kind < 0.7:
        return not value
    if isinstance(value, int) and kind < 0.7:
        return rng.choice((*NUMBERS, value + 1, value - 1, -value, value * 2))
    if isinstance(value, str) and kind < 0.7:
        return rng.choice((*TEXTS, *PATHS, value + "/..", value + "x", value[: len(value) // 2])).replace("@BOX", box)
    others = (*EMPTY, *NUMBERS, *TEXTS, *PATHS, LONG, DEEP, [value], {"x": value})
    return renamed(copy.deepcopy(rng.choice(others)), "@BOX/outside/x", f"{box}/outside/x")


CHANGES: tuple[Callable[[random.Random, Value, tuple[Any, ...], str], None], ...] = (
    *([replace] * 5),
    remove,
    repeat,
    exchange,
    rename,
    rename,
)


def mutated(rng: random.Random, whole: bytes, form: Form, box: str) -> tuple[bytes, str]:
    """A file with one to three values changed, and where."""
    rows, told = read(whole, form), []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(walk_places(rows))
        if not places:
            break
        tops = [place for place in places if len(place) <= 3] or places
        place = rng.choice(tops if rng.random() < 0.4 else places)
        change = rng.choice(CHANGES)
        change(rng, rows, place, box)
        told.append(f"{change.__name__} {'.'.join(map(str, place))[:80]!r}")
    return build(rows, form, whole), ", ".join(told)
