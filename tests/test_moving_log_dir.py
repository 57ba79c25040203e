"""A broker renames, deletes or makes a file at any moment of a run: nothing is said that was not so before or after.

Who asks the system twice about one name, and draws its conclusion from the second answer, tells of a trouble that
nobody ever had. What may be said is that something changed while it was read.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from moving_log_dir import CHANGES, Change, Moment, make_log_dir
from running import Done, run_here

Path = pathlib.Path
NOW = ["--now", "1700000300000"]
COMMANDS = (
    "doctor --format json",
    "verify --format json",
    "scrub --format json --recovery-point 9223372036854775807 --state STATE",
    "dump-log",
    "free --format json",
    "retain --format json",
    "compact --format json",
    "compact --why",
    "image --output IMAGE",
    "recover --format json",
    "recover --format json --last-stop clean",
    "hash --format json",
    "offsets --format json",
    "txns --format json",
)
TROUBLE = re.compile(
    "permission|denied|offline|corrupt|missing|no such file|cannot be|damage|unreadable|not a folder|a folder, not"
    "|stray|refuse|lost|loses|error|no log|not there|ends|not a directory"
)
CHANGED = re.compile("changed|went away|gone|while it was read|became shorter|vanished")


def told(done: Done) -> set[str]:
    """What a run says of troubles: sentences and ids, without their numbers."""
    found = set[str]()
    for line in [*done.out.decode(errors="replace").splitlines(), *done.err.splitlines()]:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        pieces = strings(row) if isinstance(row, dict) else iter([line])
        found.update(re.sub(r"\d+", "N", piece).strip() for piece in pieces)
    return {piece for piece in found if TROUBLE.search(piece.lower()) and not CHANGED.search(piece.lower())}


def is_of_what_went(piece: str, change: Change, log_dir: Path) -> bool:
    """Whether a run says that it could not read what went away: so it is."""
    if change.path is None:
        return False
    went = re.sub(r"\d+", "N", str(log_dir / change.path))
    gone = "no such file or directory"
    why = rf"{gone}|(not in the image|only the size .*: not read) \({gone}\)"
    told = f"(klogtool: |message: )?{re.escape(went)}(/.*)?: ({why})"
    return re.fullmatch(told, piece) is not None


def strings(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        if re.fullmatch("[a-z]+(-[a-z]+)*", str(value.get("id"))):
            yield f"error {value['id']} {value.get('path')}"
        for key, inside in value.items():
            yield from strings(inside, str(value.get("path")) if key == "why" else key)
    elif isinstance(value, list):
        for inside in value:
            yield from strings(inside, name)
    elif isinstance(value, str):
        yield f"{name}: {value}"


def run_on(command: str, log_dir: Path, base: Path, moment: Moment | None, change: Change | None = None) -> Done:
    for folder in log_dir.parent.iterdir():
        if folder != base:
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    shutil.copytree(base, log_dir)
    if change is not None:
        change.happen(log_dir, log_dir.with_name("aside"))
    name, *options = command.split()
    places = {"IMAGE": str(log_dir.with_name("image")), "STATE": str(log_dir.with_name("state"))}
    words = [name, str(log_dir), *(places.get(word, word) for word in options)]
    words += [] if name in ("hash", "dump-log", "image", "offsets") else NOW
    with pytest.MonkeyPatch.context() as patch, nullcontext() if moment is None else moment.hooked():
        patch.setattr(os, "sched_getaffinity", lambda pid: {0})  # in one process, or nobody sees when it happens
        return run_here(words, log_dir.parent)


@pytest.mark.slow
@pytest.mark.some(6)
@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_said_that_was_not_so_before_or_after(command: str, change: Change, tmp_path: Path) -> None:
    base, log_dir = make_log_dir(tmp_path / "base"), tmp_path / "logs"
    ends = [run_on(command, log_dir, base, None), run_on(command, log_dir, base, None, change)]
    allowed, statuses = told(ends[0]) | told(ends[1]), {done.status for done in ends}
    wrong, n = list[str](), 0
    while True:
        n += 1
        moment = Moment(change, log_dir, n)
        done = run_on(command, log_dir, base, moment)
        if not moment.happened:
            break
        said = done.err + done.out.decode(errors="replace")
        if "Traceback" in said:
            wrong.append(f"{n}. {moment.call}: {said[-600:]}")
        if new := {piece for piece in told(done) - allowed if not is_of_what_went(piece, change, log_dir)}:
            wrong.append(f"{n}. {moment.call}: " + "\n    ".join(sorted(new)))
        elif done.status not in {*statuses, 3, 4}:
            wrong.append(f"{n}. {moment.call}: status {done.status} {statuses}: {done.err[-300:]}")
    assert n > 1 or not command.startswith("verify")  # others do not look at all files
    assert not wrong, f"{len(wrong)} of {n - 1}\n" + "\n".join(wrong)
