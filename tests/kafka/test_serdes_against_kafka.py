"""The formats of Kafka's own serializers: the same values, and the same bytes refused, as by its deserializers."""

from __future__ import annotations

import pathlib
import random
import struct
import subprocess
import uuid
from typing import Any

import pytest

from klogtool.decoding.formats import find_decoder
from klogtool.errors import Corrupt

from .kafka import BRIEF_JVM, Unavailable, prepare

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

ASKING = pathlib.Path(__file__).with_name("Deserialize.java")
FORMATS = ("string", "short", "int", "long", "float", "double", "boolean", "uuid", "void")
UUIDS = """1-2-3-4-5 1-2-3-4 -1-2-3-4-5 g-2-3-4-5 1--3-4-5 123456789-2-3-4-5 1-2-3-4-5-6 1-22222-3-4-5 0x1-2-3-4-5
1-2-3-4-ffffffffffffffff 1-2-3-4-fffffffffffffffff +1-2-3-4-5 1-2-3-4-7fffffffffffffff ffffffffffffffff-2-3-4-5
6F1C7A52-0000-0000-0000-00000000000A 6f1c7a52_0000-0000-0000-000000000001 1-2-3-4-+5 00000000000000000001-2-3-4-5
1-2-3-4- -1-2-3-4 1-2-3-4-\u0665 1-2-3-4-\uff21\uff46 1-2-3-4-\uff27 1-2-3-4-5_6 1-2-3-4-\U0001d7ce"""


def inputs() -> list[tuple[str, bytes]]:
    chance = random.Random(25)
    sizes = {"short": 2, "int": 4, "long": 8, "float": 4, "double": 8, "boolean": 1, "uuid": 36}
    found = [(form, chance.randbytes(size)) for form in FORMATS for size in range(11)]
    found += [(form, chance.randbytes(size)) for form, size in sizes.items() for _ in range(300)]
    found += [("string", chance.randbytes(chance.randrange(12))) for _ in range(500)]
    found += [("boolean", bytes([n])) for n in range(256)]
    found += [("uuid", text.encode()) for text in UUIDS.split()]
    return [*found, *(("uuid", str(uuid.UUID(bytes=chance.randbytes(16))).encode()) for _ in range(100))]


def kafkas(asked: list[tuple[str, bytes]]) -> list[str | None]:
    try:
        home = prepare()
    except Unavailable as reason:
        pytest.skip(str(reason))
    lines = "".join(f"{form} {data.hex()}\n" for form, data in asked)
    command = ["java", *BRIEF_JVM, "-cp", f"{home}/lib/*", str(ASKING)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
    answers = [line.partition(" ")[2] if line.startswith("is ") else None for line in done.stdout.splitlines()]
    return [None if answer is None else bytes.fromhex(answer).decode() for answer in answers]


def ours(form: str, data: bytes) -> Any:
    try:
        return find_decoder(form, None, is_key=False)(data, None).value
    except Corrupt:
        return None


def is_same(form: str, mine: Any, theirs: str | None) -> bool:
    if mine is None or theirs is None:
        return mine is None and theirs is None
    if form == "float":
        return struct.pack(">f", float(mine)) == struct.pack(">f", float(theirs))
    if form == "double":
        return str(float(mine)) == str(float(theirs))
    return (str(mine).lower() if form == "boolean" else str(mine)) == theirs


@pytest.mark.slow
def test_every_value_is_kafkas() -> None:
    asked = inputs()
    wrong = [
        (form, data.hex(), mine, theirs)
        for (form, data), theirs in zip(asked, kafkas(asked), strict=True)
        if not is_same(form, mine := ours(form, data), theirs)
    ]
    assert not wrong
