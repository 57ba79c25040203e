"""Nothing that was planted in a log dir is in its image: in every file, name and gap, of every wound, in any form.

A form is what stands on the disk: the text, compressed, or base64. Of each only so few bytes may be found as a number
of a log can have. `klogtool fleet collect` and the page of the doctor promise the same of keys and values.
"""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import zstandard
from running import FIXTURES, run_here
from wounded import CASES

from klogtool.errors import KlogError
from klogtool.format.batch import Header, RecordBatch
from klogtool.format.names import INTERNAL_TOPICS
from klogtool.log.entries import walk_entries

Path = pathlib.Path
Place = Callable[[bytes, bytes, random.Random], bytes]
STAYING = [name.encode() for name in INTERNAL_TOPICS]
WINDOW = 8  # so many bytes are never all of a number
SECRET = b"Hunter2 and the Correct Horse: 4929-3813-3266-4295, jane.doe@example.org"
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda text: text,
    "gzip": lambda text: gzip.compress(text, mtime=0),
    "zstd": lambda text: bytes(zstandard.ZstdCompressor().compress(text)),
    "base64": base64.b64encode,
}
NAMES = (
    "{0}",
    "{0}.log",
    "{0}.index",
    "00000000000000000077.{0}.log",
    "00000000000000000077-0000000001{0}.checkpoint",
    "00000000000000000077.log.{0}",
)
FOLDERS = ("{0}", "{0}-0", "t-8.{0}-delete", "t-9.{0}-stray")


def replaced(data: bytes, secret: bytes, chance: random.Random) -> bytes:
    return (secret * (len(data) // len(secret) + 1))[: max(len(data), len(secret))]


def appended(data: bytes, secret: bytes, chance: random.Random) -> bytes:
    return data + secret


def inserted(data: bytes, secret: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + secret + data[at:]


def overwritten(data: bytes, secret: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(max(1, len(data) - len(secret)))
    return data[:at] + secret + data[at + len(secret) :]


def in_a_line(data: bytes, secret: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    n = chance.randrange(len(lines))
    return b"\n".join([*lines[:n], lines[n] + b" " + secret, secret + b" = 7", *lines[n:]])


def between_batches(data: bytes, secret: bytes, chance: random.Random) -> bytes:
    at = data.find(b"\x02", 17) - 16  # where a header has its magic, often enough
    return data[: max(0, at)] + secret + data[max(0, at) :]


PLACES = (replaced, appended, inserted, overwritten, in_a_line, between_batches)


def plant(log_dir: Path, form: str, place: Place) -> bytes:
    """Put the secret in every file, and in names beside them; return its form."""
    secret, chance = FORMS[form](SECRET), random.Random(f"{form} {place.__name__}")
    for path in sorted(log_dir.rglob("*")):
        if path.is_file():
            path.write_bytes(place(path.read_bytes(), secret, chance))
    name = base64.urlsafe_b64encode(secret).decode()[:60] if form != "plain" else "Hunter2_and_the_Correct_Horse"
    for folder in [path for path in log_dir.rglob("*") if path.is_dir()][:2]:
        for pattern in NAMES:
            (folder / pattern.format(name)).write_bytes(secret)
    for pattern in FOLDERS:
        (log_dir / pattern.format(name)).mkdir()
        (log_dir / pattern.format(name) / f"{0:020d}.log").write_bytes(secret)
    return secret


def windows(data: bytes) -> set[bytes]:
    return {data[at : at + WINDOW] for at in range(len(data) - WINDOW + 1)}


def telling(data: bytes) -> set[bytes]:
    """Windows that are nowhere by chance; numbers with zeros, and times that a header has, too, are."""
    return {window for window in windows(data) if len(set(window)) >= WINDOW - 2 and window.count(0) < 2}


def found_in(folder: Path, secrets: set[bytes]) -> list[str]:
    """The places of an image that have a window of a secret, also in what can be inflated."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder)).encode()
        texts = [name] + ([path.read_bytes(), *inflated(path)] if path.is_file() else [])
        found += [str(path) for text in texts if secrets & windows(text)]
    return found


def inflated(path: Path) -> Iterator[bytes]:
    """What the records of compressed entries say, if they can be read."""
    for entry in entries_of(path) if path.suffix in (".log", ".checkpoint") else ():
        if entry.attributes & 7:
            with suppress(KlogError):
                for record in entry.records():
                    yield b" ".join([record.key or b"", record.value or b"", *map(repr_of, record.headers)])


def repr_of(header: Header) -> bytes:
    return header.key + b"=" + (header.value or b"")


def entries_of(log: Path) -> Iterator[Any]:
    with suppress(KlogError):
        yield from walk_entries(str(log))


def assert_nothing_found(log_dir: Path, form: str, place: Place) -> None:
    output, values = log_dir.parent / "image", keys_and_values(log_dir)
    secret = plant(log_dir, form, place)
    done = run_here(["image", str(log_dir), "--output", str(output), "--format", "json"], log_dir.parent)
    assert done.status == 0, done.err
    searched = telling(secret) | telling(SECRET) | telling(base64.b64encode(SECRET))
    names = json.loads((log_dir.parent / "image.names.json").read_text())
    assert found_in(output, searched | values) == [], names
    assert json.loads(done.out.splitlines()[-1])["holes"]


def keys_and_values(log_dir: Path) -> set[bytes]:
    """Windows of keys and values of sound records, except for those of the metadata, of which parts stay."""
    found: set[bytes] = set()
    for log in sorted(log_dir.glob("*/*.log")):
        if "__cluster_metadata" not in log.parent.name:
            for entry in entries_of(log):
                if isinstance(entry, RecordBatch) and not entry.is_control:
                    with suppress(KlogError):
                        for record in entry.records() if entry.crc_valid else ():
                            found |= telling(record.key or b"") | telling(record.value or b"")
    return {window for window in found if window.isascii() and not any(window in name for name in STAYING)}


def planted(tmp_path: Path, wound: str | None, fixture: str) -> Path:
    log_dir = tmp_path / "d"
    shutil.copytree(FIXTURES / fixture, log_dir)
    if wound is not None:
        CASES[wound].wound(log_dir)
        for path in log_dir.rglob("*"):
            if path.is_fifo():
                path.unlink()
    return log_dir


@pytest.mark.parametrize("fixture", ["leader-epochs", "transactions", "metadata", "three-magics", "groups", "tiered"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS)
def test_nothing_that_was_planted_is_in_the_image(tmp_path: Path, fixture: str, place: Place, form: str) -> None:
    log_dir = planted(tmp_path, None, f"{fixture}/logdir")
    assert_nothing_found(log_dir, form, place)


@pytest.mark.parametrize("wound", [id for id, case in CASES.items() if case.paths == ("",)])
def test_nothing_that_was_planted_in_a_wound_is_in_the_image(tmp_path: Path, wound: str) -> None:
    chance = random.Random(wound)
    log_dir = planted(tmp_path, wound, CASES[wound].fixture)
    assert_nothing_found(log_dir, chance.choice([*FORMS]), chance.choice(PLACES))


SIDE_FILES = ("txnindex", "index", "timeindex", "snapshot")


@pytest.mark.parametrize("kind", [*SIDE_FILES, "checkpoint"])
def test_a_log_under_another_name(tmp_path: Path, kind: str) -> None:
    log_dir = planted(tmp_path, None, "every-codec/logdir")
    values = keys_and_values(log_dir)
    assert values
    for log in sorted(log_dir.glob("*/*.log")):
        log.rename(log.with_suffix(f".{kind}"))
    output = tmp_path / "image"
    done = run_here(["image", str(log_dir), "--output", str(output), "--keep-names", "--format", "json"], tmp_path)
    assert done.status == 0, done.err
    assert found_in(output, values) == []
    assert json.loads(done.out.splitlines()[-1])["holes"] or kind == "checkpoint"


@pytest.mark.parametrize("fixture", ["leader-epochs", "transactions", "groups"])
def test_no_key_and_no_value_is_in_what_promises_it(tmp_path: Path, fixture: str) -> None:
    """What fleet collect writes, and the page of the doctor, on logs with damage everywhere."""
    log_dir = planted(tmp_path, None, f"{fixture}/logdir")
    values = keys_and_values(log_dir)
    for log in sorted(log_dir.glob("*/*.log")):
        log.write_bytes(overwritten(log.read_bytes(), b"x" * 20, random.Random(log.parent.name)))
    collected = run_here(["fleet", "collect", str(log_dir)], tmp_path)
    run_here(["doctor", str(log_dir), "--html", str(tmp_path / "page.html")], tmp_path)
    for told in (collected.out, (tmp_path / "page.html").read_bytes()):
        assert told
        assert not values & windows(told)
