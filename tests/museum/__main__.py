"""`make museum`: each bug is brought back in a copy of the checkout; its test has to fail then, and to pass without.

    PYTHONPATH=tests python -m museum [--only NAME] [--jobs N] [--record DATE] | --page

--record writes the date into found.json, for docs/museum.md (`make docs`). The checkout itself is never changed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from queue import SimpleQueue

import msgspec

from museum.bugs import FOUND, PAGE, Bug, bugs, last_found, with_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_COPIED = (".git", ".work", ".venv", "build", "dist", "__pycache__", ".pytest_cache", ".hypothesis", ".mypy_cache")
SECONDS = 600  # of one test, on a busy machine
FAILED = re.compile(r"\b\d+ failed\b")


class Scratch:
    """A copy of the checkout, which is what its tests import."""

    def __init__(self, folder: str, n: int) -> None:
        self.root = pathlib.Path(folder) / f"copy {n}"
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
        self._home = pathlib.Path(folder) / f"home{n}"
        self._home.mkdir()

    def run(self, *tests: str, also: Mapping[str, str] | None = None, seconds: int = SECONDS) -> tuple[int, str]:
        """Run tests, with more of an environment; return pytest's exit status, and what it printed."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "PYTEST_DEBUG_TEMPROOT": str(self._home),
            "KLOGTOOL_NIGHTLY": "1",
            **(also or {}),
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-x", "--tb=line", *tests]
        try:
            done = subprocess.run(
                command, cwd=self.root, env=environment, text=True, timeout=seconds, check=False, capture_output=True
            )
        except subprocess.TimeoutExpired:
            return -1, f"no end after {seconds} s\n"
        return done.returncode, done.stdout + done.stderr

    def is_found(self, bug: Bug) -> str | None:
        """Return None if the test fails with the bug; else why it did not."""
        path = self.root / bug.file
        whole = path.read_text(encoding="utf-8")
        try:
            write_module(path, bug.changed(self.root))
            status, printed = self.run(bug.test)
        finally:
            write_module(path, whole)
        last = printed.strip().rpartition("\n")[2]
        return None if status == 1 and FAILED.search(last) else f"{bug.test} did not fail: {last}"


def write_module(path: pathlib.Path, text: str) -> None:
    """Write a module, without its bytecode: that is told by size and second, so it may pass for that of other text."""
    path.write_text(text, encoding="utf-8")
    pathlib.Path(cache_from_source(str(path))).unlink(missing_ok=True)


def check_sound(scratch: Scratch, wanted: Sequence[Bug]) -> str | None:
    """Return why the tests do not pass without the bugs, or None."""
    status, printed = scratch.run(*sorted({bug.test for bug in wanted}))
    return None if status == 0 else f"without any bug:\n{printed[-3000:]}"


def tour(wanted: Sequence[Bug], jobs: int) -> dict[str, str | None]:
    """Try all; return, by name, why a bug was not found, or None."""
    with tempfile.TemporaryDirectory(prefix="klogtool-museum-") as folder:
        copies: SimpleQueue[Scratch] = SimpleQueue()
        for n in range(jobs):
            copies.put(Scratch(folder, n))
        scratch = copies.get()
        trouble = check_sound(scratch, wanted)
        copies.put(scratch)
        if trouble is not None:
            return {"(sound)": trouble}

        def look(bug: Bug) -> str | None:
            mine = copies.get()
            try:
                return mine.is_found(bug)
            finally:
                copies.put(mine)

        with ThreadPoolExecutor(jobs) as pool:
            results = {}
            for bug, why in zip(wanted, pool.map(look, wanted), strict=True):
                print(f"{'found' if why is None else 'NOT FOUND':9} {bug.name}  {why or ''}".rstrip(), flush=True)
                results[bug.name] = why
            return results


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a bug was not found."""
    parser = argparse.ArgumentParser(prog="make museum", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="of this bug alone; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="copies that are used at a time")
    parser.add_argument("--record", metavar="DATE", help="write this date, like 2026-11-27, into found.json")
    parser.add_argument("--page", action="store_true", help="only write the table of docs/museum.md")
    given = parser.parse_args(arguments)
    if given.page:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    unknown = sorted(set(given.only) - {bug.name for bug in bugs()})
    if unknown:
        parser.error(f"no such bug: {', '.join(unknown)}")
    wanted = [bug for bug in bugs() if not given.only or bug.name in given.only]
    results = tour(wanted, given.jobs)
    lost = {name: why for name, why in results.items() if why is not None}
    if given.record:
        known = last_found() if FOUND.exists() else {}
        known |= {name: given.record for name, why in results.items() if why is None}
        rows = {bug.name: known[bug.name] for bug in bugs() if bug.name in known}
        FOUND.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    for name, why in lost.items():
        print(f"{name}: {why}", file=sys.stderr)
    print(f"{len(results) - len(lost)} of {len(wanted)} bugs were found again")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
