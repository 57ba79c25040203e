#!/usr/bin/env python3
"""Whole damaged log dirs through every command that reads or plans, in this process.

    directories.py [--seconds N] [--inputs N] [--corpus DIR] [--add PAGE]   look for inputs that something is wrong with
    directories.py INPUT...                                                 ask these again, and say what they are

An input's bytes decide which directory, which wounds, and what is asked (see trees.py, dir_questions.py, work.py).
atheris changes inputs by the coverage of klogtool's Python; where there is no atheris for this Python, inputs are
random, and that is said. Found is: an exception that is no KlogError, an answer that cannot be right, something
written, more than 512 MB, more than 10 s. Found inputs are kept in .work/fuzz/directories/found, one of each kind.
A new corpus begins with directories.corpus; --add keeps some of it there, and adds to the sums of docs/fuzzing.md.
Every 100,000 inputs have a process of their own: of each input in its corpus libFuzzer keeps ever more.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import io
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator

try:
    import atheris
except ImportError:
    atheris = None

FUZZ = pathlib.Path(__file__).resolve().parent
WORK = FUZZ.parents[1] / ".work" / "fuzz" / "directories"
OURS = f"{FUZZ.parents[1]}/klogtool/"
LIMIT_S, LIMIT_BYTES = 10, 512 << 20
STUCK_S = 100  # of the clock, waiting for a FIFO perhaps
LONGEST_S = 100  # of the processor, in compiled code that no signal ends
LONGEST_INPUT = 256
SEEDS = 200
KEPT, MOST_KEPT = FUZZ / "directories.corpus", 500  # the shortest, a line of hex for each
TOLD_EACH = 20_000
ROUND = 100_000


@contextlib.contextmanager
def instrumented() -> Iterator[None]:
    """Meanwhile modules of klogtool are imported so that atheris sees where they go; it tells of each one."""
    with contextlib.ExitStack() as stack:
        if atheris is not None:
            stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            stack.enter_context(atheris.instrument_imports(include=["klogtool"]))
        yield


with instrumented():
    from choices import Choices
    from dir_questions import Place, ask
    from sums import add, add_option
    from trees import Tree, Workplace, scenarios, wound


class Late(BaseException):
    """Too much time has gone by. No Exception: nobody is to catch it on the way."""


class Fuzzing:
    """The target, what it found, and how much it has done."""

    def __init__(
        self, folder: pathlib.Path, *, inputs: float, seconds: float, page: pathlib.Path | None = None
    ) -> None:
        self._folder, self._inputs, self._until = folder, inputs, time.monotonic() + seconds
        self._page = page
        self._scenarios = scenarios()
        self._last = folder / "input"
        self._workplaces: dict[int, Workplace] = {}
        self._began, self._done = time.monotonic(), 0
        self._slowest_s = 0.0
        self.found: Counter[str] = Counter()

    def target(self, data: bytes) -> None:
        """One input; ends the process when it was the last one."""
        if self._done >= self._inputs or time.monotonic() >= self._until:
            self.end()
        if not self._done:
            watch_signals()
        self._done += 1
        self._last.write_bytes(data)
        began = time.process_time()
        wrong = self.wrong_with(data)
        self._slowest_s = max(self._slowest_s, time.process_time() - began)
        if wrong is not None:
            self._keep(data, wrong)
        if self._done % TOLD_EACH == 0:
            self.tell()

    def wrong_with(self, data: bytes, told: list[str] | None = None) -> str | None:
        """What is wrong with an input, or None. told: takes what it is, in words."""
        told = [] if told is None else told
        rng = Choices(data)
        number = rng.randrange(len(self._scenarios))
        workplace = self._workplace(number)
        told.append(self._scenarios[number].name)
        tree: Tree = dict(workplace.tree)
        told.extend(wound(rng, tree))
        place = Place(workplace.root, self._folder / "scratch")
        try:
            with watched(), workplace.laid(tree):
                ask(rng, place, told.append)
        except (Exception, Late):
            self._clear_up(workplace)
            return traceback.format_exc()
        return _too_much_memory()

    def _workplace(self, number: int) -> Workplace:
        if number not in self._workplaces:
            tree = self._scenarios[number].tree
            self._workplaces[number] = Workplace(self._folder / str(number), tree)
        return self._workplaces[number]

    def _clear_up(self, workplace: Workplace) -> None:
        workplace.lay_anew()
        shutil.rmtree(self._folder / "scratch", ignore_errors=True)

    def _keep(self, data: bytes, wrong: str) -> None:
        """One input of each kind, and what was wrong with it."""
        kind = kind_of_wrong(wrong)
        self.found[kind] += 1
        if self.found[kind] > 1:
            return
        path = WORK / "found" / hashlib.sha256(kind.encode()).hexdigest()[:12]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        print(f"\nFound, kept as {path}:\n{wrong}", flush=True)

    def end(self) -> None:
        """Say how it went, and leave: libFuzzer has no other end."""
        self.tell()
        add(self._page, "directories.py", inputs=self._done, found=len(self.found))
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(bool(self.found))

    def tell(self) -> None:
        """How it went so far."""
        seconds = time.monotonic() - self._began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        found = sum(self.found.values()) or "nothing"
        how = "led by coverage (atheris)" if atheris else "of chance"
        print(
            f"\n{self._done:,} inputs {how} in {seconds:,.0f} s, {self._done / seconds:,.0f}/s; peak {peak} MB; "
            f"the slowest took {self._slowest_s:.1f} s: {found} found",
            flush=True,
        )
        for kind, count in self.found.most_common():
            print(f"  {count:>7,}  {kind}", flush=True)


def kind_of_wrong(wrong: str) -> str:
    """The law or exception, without what it says of this case, and the last place in klogtool."""
    lines = wrong.strip().splitlines()
    places = [line.strip() for line in lines if line.strip().startswith("File ") and OURS in line]
    last = next(line for line in reversed(lines) if not line.startswith(" "))
    told = last if ":" not in last else ": ".join(last.split(": ")[:2])
    if "Error" in told and places:
        where = places[-1].rpartition(OURS)[2].replace('", line ', ":").split(",")[0]
        return f"{last.split(':')[0]} at {where}"
    return told[:200]


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Raises Late behind so much time of the processor, or of the clock; a loop in compiled code is killed."""
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + LONGEST_S, resource.RLIM_INFINITY))
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    Ticks.count = 0
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def late(*_: object) -> None:
    raise Late(f"no answer in {LIMIT_S} s")


class Ticks:
    """Seconds of the clock, without those in which this process was stopped from outside."""

    count = 0

    @classmethod
    def tick(cls, *_: object) -> None:
        cls.count += 1
        if cls.count >= STUCK_S:
            raise Late(f"nothing but waiting for {STUCK_S} s")


def watch_signals() -> None:
    """Once libFuzzer has set its own ones."""
    signal.signal(signal.SIGPROF, late)
    signal.signal(signal.SIGALRM, Ticks.tick)
    faulthandler.register(signal.SIGXCPU, chain=True)


@contextlib.contextmanager
def watching() -> Iterator[None]:
    """Signals and limits as they were before, afterwards."""
    kept = [(number, signal.getsignal(number)) for number in (signal.SIGPROF, signal.SIGALRM)]
    limits = resource.getrlimit(resource.RLIMIT_CPU)
    watch_signals()
    try:
        yield
    finally:
        for number, handler in kept:
            signal.signal(number, handler)
        faulthandler.unregister(signal.SIGXCPU)
        resource.setrlimit(resource.RLIMIT_CPU, limits)


def _too_much_memory() -> str | None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if peak <= LIMIT_BYTES:
        return None
    with open("/proc/self/clear_refs", "w") as file:  # the peak begins anew
        file.write("5")
    return f"Memory: {peak >> 20} MB at its peak"


def fuzz(fuzzing: Fuzzing, corpus: pathlib.Path, seed: int) -> None:
    """Inputs without end; the target ends the process."""
    rng = random.Random(seed)
    if atheris is None:
        print(f"No atheris for this Python: inputs are random, of seed {seed}, not led by coverage", flush=True)
        while True:
            fuzzing.target(rng.randbytes(rng.choice((16, 32, 64, 128))))
    corpus.mkdir(parents=True, exist_ok=True)
    if not any(corpus.iterdir()):
        drawn = [rng.randbytes(rng.choice((16, 32, 64, 128))) for _ in range(SEEDS)]
        for n, data in enumerate([*map(bytes.fromhex, KEPT.read_text(encoding="ascii").split()), *drawn]):
            (corpus / f"seed-{n}").write_bytes(data)
    options = [f"-seed={seed % 2**31}", f"-max_len={LONGEST_INPUT}", "-len_control=0", "-rss_limit_mb=0"]
    options += ["-timeout=0", "-detect_leaks=0", f"-artifact_prefix={WORK}/", "-print_final_stats=0", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, os.fspath(corpus)], fuzzing.target, internal_libfuzzer=True)
    atheris.Fuzz()


def fuzz_in_rounds(options: argparse.Namespace) -> int:
    """So many inputs, a process for each round: the exit status."""
    until, status, done = time.monotonic() + options.seconds, 0, 0
    while done < options.inputs and time.monotonic() < until:
        inputs = min(options.round, options.inputs - done)
        command = [sys.executable, __file__, "--inputs", str(inputs), "--round", str(inputs)]
        command += ["--seconds", str(until - time.monotonic())]
        command += ["--seed", str(options.seed + int(done)), "--corpus", options.corpus]
        command += [] if options.add is None else ["--add", options.add]
        status |= subprocess.run(command, check=False).returncode
        done += inputs
    return status


def keep(corpus: pathlib.Path) -> None:
    """Write the shortest inputs of a corpus, which no other one of it replaces, into the file that git has."""
    found = sorted({path.read_bytes() for path in corpus.iterdir()}, key=lambda data: (len(data), data))
    KEPT.write_text("".join(f"{data.hex()}\n" for data in found[:MOST_KEPT]), encoding="ascii")


def ask_again(fuzzing: Fuzzing, paths: list[pathlib.Path]) -> None:
    for path in paths:
        told: list[str] = []
        wrong = fuzzing.wrong_with(path.read_bytes(), told)
        print(path, *told, wrong or "Nothing is wrong with it.", sep="\n  ", flush=True)
        if wrong is not None:
            fuzzing.found[kind_of_wrong(wrong)] += 1
    sys.exit(bool(fuzzing.found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=pathlib.Path, metavar="INPUT")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--inputs", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--round", type=float, default=ROUND, help="inputs that a process sees")
    parser.add_argument("--corpus", type=pathlib.Path, default=WORK / "corpus", help="kept from run to run")
    add_option(parser)
    options = parser.parse_args()
    if options.inputs > options.round and not options.paths:
        status = fuzz_in_rounds(options)
        if options.add is not None and options.corpus.is_dir():
            keep(options.corpus)
        sys.exit(status)
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    WORK.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="klogtool-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        fuzzing = Fuzzing(pathlib.Path(folder), inputs=options.inputs, seconds=options.seconds, page=options.add)
        if options.paths:
            watch_signals()
            ask_again(fuzzing, options.paths)
        print(f"If this process dies, its last input is {folder}/input", flush=True)
        fuzz(fuzzing, options.corpus, options.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
