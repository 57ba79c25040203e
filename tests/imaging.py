"""The law of `klogtool image`: what commands answer about the image is what they answer about the original."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from running import run_here

from klogtool.errors import KlogError
from klogtool.log.entries import walk_entries

Path = pathlib.Path
NOW = ("--now", "1790000000000")
QUESTIONS = (
    ("verify", "--notes", *NOW),
    ("recover", *NOW),
    ("txns", *NOW),
    ("retain", *NOW),
    ("doctor", *NOW),
)
ROOT_FILES = ("meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")
# An image has no keys and values, so nothing of __transaction_state.
_OF_COORDINATORS = ("transactional_id", "state", "timeout_ms", "coordinator", "verdict", "abort")
_LEFT_OUT = {
    "plan": ("id",),
    "summary": ("seconds",),
    "verdict": ("seconds_estimated",),
    "transaction": _OF_COORDINATORS,
}
LETTERS = "QXZJKVWY"  # of names that are no words


def log_dirs_in(root: Path) -> Iterator[Path]:
    """The log dirs under a folder."""
    for folder in sorted(path for path in root.rglob("*") if path.is_dir()):
        if any((folder / name).exists() for name in ROOT_FILES):
            yield folder


def answers(path: Path, questions: Sequence[tuple[str, ...]] = QUESTIONS) -> list[Any]:
    """Exit status, rows and notes of each question; what differs from run to run is left out."""
    found: list[Any] = []
    for command, *options in questions:
        done = run_here([command, path.name, *options, "--format", "json"], path.parent)
        rows = [json.loads(line) for line in done.out.splitlines()]
        found += [done.status, done.told, [_lasting(row) for row in rows if row["type"] != "klogtool"]]
    return found


def _lasting(row: dict[str, Any]) -> dict[str, Any]:
    """A row without times of this run, the identity of a plan and of its files, and what records say."""
    left_out = _LEFT_OUT.get(row["type"], ())
    row = {name: value for name, value in row.items() if name not in left_out}
    for fact in row.get("facts", ()):
        for name in set(fact) - {"path", "size", "mtime_ns"}:
            del fact[name]
    return row


def put_in_place(log_dir: Path, *options: str) -> set[str]:
    """The log dir becomes its image. Returns the names of files that have holes, as klogtool told."""
    made = log_dir.with_name("made")
    done = run_here(["image", str(log_dir), "--output", str(made), "-q", "--format", "json", *options], log_dir.parent)
    assert (done.status, done.told) == (0, "")
    shutil.rmtree(log_dir)
    os.rename(made, log_dir)
    return {os.path.basename(hole["path"]) for hole in json.loads(done.out.splitlines()[-1])["holes"]}


def without_details(found: list[Any], holes: set[str]) -> list[Any]:
    """The answers without what may differ for files with holes: words and numbers of findings about them, and in plans
    and situations that quote them. Which files and partitions have findings, and every status, stay."""
    if not holes:
        return found
    return [_kinds(item, holes) if isinstance(item, list) else item for item in found if not isinstance(item, str)]


def without_starts(found: list[Any]) -> list[Any]:
    """The answers of verify without what a start makes of an index that leads it into the middle of a batch: it finds
    other bytes there in an image."""
    return [
        [_unstarted(row) for row in item if _is_of_a_file(row)] if isinstance(item, list) else item for item in found
    ]


def _is_of_a_file(row: dict[str, Any]) -> bool:
    return row.get("id") != "clean-marker-false" or not row["detail"].startswith("the offset index leads a broker past")


def _unstarted(row: dict[str, Any]) -> dict[str, Any]:
    if row["type"] == "summary":
        return {name: value for name, value in row.items() if name not in ("errors", "warnings")}
    if row.get("id") != "index-entry":
        return row
    return {**row, "detail": row["detail"].split("; ")[0], "severity": ""}


def without_options(found: list[Any], log_dir: Path) -> list[Any]:
    """The answers without what the doctor's options keep and what consumers miss, if there are compressed batches of
    magic 2: their records are gone, and the doctor opens what it promises to keep and compares records of copies."""
    if not any(map(has_compressed, log_dir.glob("*/*.log"))):
        return found
    return [[_unopened(row) for row in item if _is_kept(row)] if isinstance(item, list) else item for item in found]


def _is_kept(row: dict[str, Any]) -> bool:
    return row["type"] != "option" and "readable" not in row


def _unopened(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if row["type"] != "claim" or name != "hidden"}


def has_compressed(log: Path) -> bool:
    with suppress(KlogError):
        return any(entry.magic == 2 and entry.attributes & 7 for entry in walk_entries(str(log)))
    return True  # damaged: perhaps


def _kinds(rows: list[Any], holes: set[str]) -> list[str]:
    kept = set()
    for row in rows:
        path = str(row.get("path"))
        is_about_hole = os.path.basename(path) in holes
        kept.add(f"{row['type']} {path} {'' if is_about_hole else row.get('id', row.get('situation'))}")
    return sorted(kept)


def distinct_names(topics: list[str]) -> dict[str, str]:
    """Names of the same lengths that are found in a text."""
    pairs = {}
    for n, topic in enumerate(sorted(topics)):
        name = LETTERS[n % len(LETTERS)] + LETTERS[n // len(LETTERS)] + "q" * len(topic)
        pairs[topic] = name[: len(topic)]
    assert len(set(pairs.values())) == len(pairs)
    return pairs


def with_former_names(found: list[Any], names: dict[str, str]) -> list[Any]:
    """The answers with the names before, in an order that does not depend on names, without checksums of names."""
    former = {other: topic for topic, other in names.items()}
    pattern = re.compile(r"(?<![A-Za-z0-9_])(" + "|".join(map(re.escape, former)) + r")(?![A-Za-z0-9_])")

    def told(item: Any) -> Any:
        if isinstance(item, dict):
            item = {name: told(value) for name, value in item.items() if name != "crc32c"}
            return item | {"notes": sorted(item["notes"])} if "notes" in item else item
        if isinstance(item, list):
            return [told(part) for part in item]
        is_mapped = former and isinstance(item, str)
        return pattern.sub(lambda name: former[name[1]], item) if is_mapped else item

    def in_order(item: Any) -> Any:
        if isinstance(item, list):
            return sorted(json.dumps(told(row), sort_keys=True) for row in item)
        return sorted(told(item).splitlines()) if isinstance(item, str) else item

    return list(map(in_order, found))
