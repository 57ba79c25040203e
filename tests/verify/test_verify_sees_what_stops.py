"""Whatever a recovering broker refuses to load, verify reports as an error, also without --deep."""

from __future__ import annotations

import gzip
import pathlib
import random
from collections.abc import Callable

import pytest
from deciding import decided
from kafka import layout
from loading import NOW_MS, data, marker
from raw_batches import build_batch

from klogtool.broker.circumstances import UNCLEAN, Circumstances
from klogtool.errors import KlogError
from klogtool.format.batch import Record
from klogtool.format.message import build_message, build_message_set
from klogtool.format.names import FileKind, build_file_name
from klogtool.verify.findings import Finding, Severity
from klogtool.verify.verification import VerifyOptions, verify

SEEDS = 150
Make = Callable[[random.Random], bytes]


def _header(chance: random.Random) -> bytes:
    """A batch with some field changed, and a right checksum."""
    field = chance.choice([name for name in layout.BATCH if name not in ("length", "crc", "magic", "base_offset")])
    value = chance.choice((-1, 0, 1, 2, 5, 7, 0x10, 0x20, 0x30, 0x80))
    return layout.sealed(layout.with_field(data(4, records=2), layout.BATCH, field, value))


def _marker(chance: random.Random) -> bytes:
    """A transaction marker with some byte of its record changed, and a right checksum."""
    made = bytearray(marker(4, 7, aborts=chance.random() < 0.5))
    made[chance.randrange(61, len(made))] ^= 1 << chance.randrange(8)
    return layout.sealed(bytes(made))


def _wrapper(chance: random.Random) -> bytes:
    """A compressed message set of magic 0 or 1 with something wrong inside."""
    magic = chance.choice((0, 1))
    records = [Record(n, 1000, b"k", b"v") for n in range(3)]
    inside = bytearray(build_message_set(records, magic=magic))
    kind = chance.randrange(5)
    if kind == 0:
        inside = bytearray(gzip.compress(bytes(inside), mtime=0))
        inside[chance.randrange(len(inside))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        inside = bytearray(build_message(5, None, gzip.compress(bytes(inside), mtime=0), magic=magic, attributes=1))
        inside = bytearray(gzip.compress(bytes(inside), mtime=0))
    elif kind == 2:
        inside = bytearray(gzip.compress(bytes(inside[: chance.randrange(len(inside))]), mtime=0))
    elif kind == 3:
        inside[chance.randrange(len(inside))] ^= 1 << chance.randrange(8)
        inside = bytearray(gzip.compress(bytes(inside), mtime=0))
    value = None if kind == 4 else bytes(inside)
    return build_message(6, None, value, magic=magic, attributes=chance.choice((1, 1, 1, 1, 4, 7)))


def _records(chance: random.Random) -> bytes:
    made = bytearray(
        build_batch([Record(4 + n, 1000, b"k", b"v") for n in range(3)], codec=chance.choice(("none", "gzip")))
    )
    made[chance.randrange(61, len(made))] ^= 1 << chance.randrange(8)
    return layout.sealed(bytes(made))


MAKES: tuple[Make, ...] = (_header, _marker, _wrapper, _records)


def refusal(folder: pathlib.Path) -> KlogError | None:
    """Why a broker that recovers all of it refuses; None if it does not."""
    circumstances = Circumstances(now_ms=NOW_MS, last_stop=UNCLEAN, recovery_point=0)
    try:
        list(decided("recover", str(folder), {**circumstances.as_arguments(), "jobs": 1}))
    except KlogError as error:
        return error
    return None


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_a_recovering_broker_refuses_is_an_error(tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    make = MAKES[seed % len(MAKES)]
    bad = make(chance)
    old = build_message_set([Record(n, 1000, b"k", b"v") for n in range(4)], magic=0)
    before = chance.choice((b"", old if bad[16] < 2 else data(0, records=4)))
    behind = chance.choice((b"", data(9, records=2)))
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / build_file_name(FileKind.LOG, 0)).write_bytes(before + bad + behind)
    stopped = refusal(folder)
    found = [
        one for one in verify([str(folder)], VerifyOptions(Circumstances(now_ms=NOW_MS))) if isinstance(one, Finding)
    ]
    errors = [one for one in found if one.severity is Severity.ERROR]
    assert stopped is None or errors, (make.__name__, stopped)


def test_enough_of_them_are_refused(tmp_path: pathlib.Path) -> None:
    """The law above is not empty."""
    refused = 0
    for seed in range(SEEDS):
        folder = tmp_path / f"t-{seed}"
        folder.mkdir()
        bad = MAKES[seed % len(MAKES)](random.Random(seed))
        (folder / build_file_name(FileKind.LOG, 0)).write_bytes(bad)
        refused += refusal(folder) is not None
    assert refused > SEEDS // 10
