#!/usr/bin/env python3
"""Files that klogtool writes and reads back, or that a person writes for it, made hostile: `read_back.py [--inputs N]`.

Plans, journals, descriptions for `build`, maps of names, files of `fleet`, schemas, pages, baselines, the state of
`scrub`, manifests of `export`. Each input is one such file with wounds: of its bytes, or of its values, with checksums
that are right all the same. Found is: a traceback, a status that does not fit, a change of anything outside of the log
dirs, or, after a refusal, in them; a result that undo does not take back; too much memory or time; an escape sequence.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter

from damaged import damaged  # first: it makes the modules of tests/ known
from read_back_files import KINDS, Asked, Kind
from read_back_values import mutated
from sums import add, add_option

from running import Done, run_here  # isort: skip

STATUSES, DIED, LIMIT_S = (0, 1, 2, 3, 4), 70, 20
LIMIT_BYTES = 512 << 20
UNCHANGED = (2, 3)
Picture = dict[str, tuple[object, ...]]


class Box:
    """Where the files of a kind lie: `inside` the log dirs and their journals, `given` the hostile files, `out` what
    is written, and `outside` what nobody is to touch."""

    def __init__(self, kind: Kind, folder: pathlib.Path) -> None:
        self.kind, self.folder = kind, folder
        self.asked: Asked
        self.lay()

    def lay(self) -> None:
        """Everything as it was at first."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("inside", "given", "outside/folder"):
            (self.folder / name).mkdir(parents=True)
        for name in ("outside/x", "outside/folder/x", f"outside/{0:020d}.log"):
            (self.folder / name).write_bytes(b"not yours")
        self.asked = self.kind.lay(self.folder)
        self.whole = {path: path.read_bytes() for path in self.asked.files}
        self.before = picture(self.folder)

    def put_back(self) -> None:
        """After an input: what it left goes."""
        for path, data in self.whole.items():
            if path.exists():
                path.write_bytes(data)
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        if changed(self.folder, self.before, self.whole):
            self.lay()


def picture(folder: pathlib.Path) -> Picture:
    """Every name with its mode, size, time, and bytes."""
    found: Picture = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        time_ns = None if path.is_dir() else about.st_mtime_ns
        found[str(path.relative_to(folder))] = (about.st_mode, about.st_size if data else 0, time_ns, data)
    return found


def changed(folder: pathlib.Path, before: Picture, but: dict[pathlib.Path, bytes]) -> set[str]:
    """Names that are not as before; the hostile files, and what is written into `out`, do not count."""
    after, hostile = picture(folder), {str(path.relative_to(folder)) for path in but}
    names = {name for name in before | after if before.get(name) != after.get(name)} - hostile
    return {name for name in names if name != "out" and not name.startswith("out/")}


def ask(words: list[str], folder: pathlib.Path) -> Done:
    signal.alarm(LIMIT_S)
    try:
        return run_here(words, folder)
    except BaseException:
        return Done(DIED, b"", traceback.format_exc())
    finally:
        signal.alarm(0)


def judge(box: Box, words: list[str], done: Done) -> str | None:
    """What is wrong with an answer, or None."""
    if "Traceback" in done.err:
        return f"a traceback: {done.err[-2500:]}"
    if done.status not in STATUSES:
        return f"status {done.status}: {done.err[-500:]}"
    if done.status >= 2 and not done.err and "--json" not in words:
        return f"status {done.status} without a word"
    if b"\x1b" in done.out or "\x1b" in done.err:
        return "a terminal would obey a text of the file"
    if "--json" in words:
        for line in done.out.splitlines():
            json.loads(line)
    others = changed(box.folder, box.before, box.whole)
    if elsewhere := {name for name in others if not name.startswith("inside")}:
        return f"changed elsewhere: {sorted(elsewhere)[:5]}"
    may_change = box.kind.writes and done.status not in UNCHANGED
    if others and not may_change:
        return f"status {done.status}, and changed: {sorted(others)[:5]}"
    if done.status in (0, 1) and words[0] == "apply" and box.kind.writes == "undo" and others:
        return not_taken_back(box)
    return None


def not_taken_back(box: Box) -> str | None:
    """What `undo` leaves otherwise than it was before `apply`."""
    again = ask(["undo", str(box.folder / "inside/logs")], box.folder)
    if again.status:
        return f"undo ends with {again.status}: {again.err[-1500:]}"
    left = changed(box.folder, box.before, box.whole)
    return f"undo leaves changed: {sorted(left)[:5]}" if left else None


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def one(rng: random.Random, box: Box) -> tuple[str, str | None]:
    """(what was done and asked, what is wrong with the answer)."""
    asked, told = box.asked, []
    for path in rng.sample(asked.files, rng.choice((1, 1, min(2, len(asked.files))))):
        data = box.whole[path]
        if asked.form is None or rng.random() < 0.25:
            path.write_bytes(damaged(rng, data, healed=False) if data else rng.randbytes(20))
            told.append(f"bytes of {path.name}")
        else:
            data, how = mutated(rng, data, asked.form_of(path), str(box.folder))
            path.write_bytes(data)
            told.append(f"{how} of {path.name}")
    words = rng.choice(asked.commands)
    began, peak = time.process_time(), peak_bytes()
    done = ask(words, box.folder)
    took_s, grown = time.process_time() - began, peak_bytes() - peak
    try:
        wrong = judge(box, words, done)
    except ValueError as error:
        wrong = f"no JSON: {error}"
    if wrong is None and (took_s > LIMIT_S / 2 or (peak_bytes() > LIMIT_BYTES and grown)):
        wrong = f"{took_s:.1f} s, {grown >> 20} MB more"
    STATUS_COUNTS[box.kind.name, done.status] += 1
    return f"{'+'.join(told)}: klogtool {' '.join(words)}".replace(str(box.folder), "TMP"), wrong


STATUS_COUNTS: Counter[tuple[str, int]] = Counter()


def late(*_: object) -> None:
    raise TimeoutError(f"no answer in {LIMIT_S} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument("--first", type=int, default=0, help="`--first N --inputs 1` asks one again")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kind", action="append", choices=[kind.name for kind in KINDS], help="repeatable")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for the files of the first one that is found")
    add_option(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, late)
    kinds = [kind for kind in KINDS if not options.kind or kind.name in options.kind]
    until, findings, count = time.monotonic() + options.seconds, Counter[str](), 0
    folder = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    try:
        boxes = {kind.name: Box(kind, folder / str(n)) for n, kind in enumerate(kinds)}
        for number in range(options.first, options.first + options.inputs):
            if time.monotonic() > until:
                break
            rng = random.Random(f"{options.seed}-{number}")
            box = boxes[rng.choice(kinds).name]
            asked, wrong = one(rng, box)
            count += 1
            if wrong:
                findings[box.kind.name] += 1
                print(f"input {number} of seed {options.seed}, {box.kind.name}: {asked}\n  {wrong}", flush=True)
                if options.keep and not options.keep.exists():
                    shutil.copytree(box.folder, options.keep, symlinks=True)
                box.lay()
            box.put_back()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for kind in kinds:
        statuses = ", ".join(f"{STATUS_COUNTS[kind.name, status]:,} status {status}" for status in (*STATUSES, DIED))
        print(f"  {kind.name}: {statuses}; {findings[kind.name]} found")
    total = findings.total()
    add(options.add, "read_back.py", inputs=count, found=total)
    print(f"{count:,} hostile files, seed {options.seed}: {total or 'nothing'} found; peak {peak_bytes() >> 20} MB")
    sys.exit(total > 0)


if __name__ == "__main__":
    main()
