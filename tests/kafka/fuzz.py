"""Asks Kafka and klogtool the same question about the same damaged files, and tells where they differ.

    python -m tests.kafka.fuzz PATH... --count N --seed S --keep FOLDER

PATH: folders with partition dirs anywhere below (log dirs, corpora). Case k of seed S is the same each time:
--first k --count 1 asks it alone. --keep holds a few disagreements of each likeness: the damaged files, the two
answers and case.json; --again FOLDER asks klogtool those again, without Kafka. --only TEXT chooses kinds of damage by
name, --args "..." fixes the command line ({logs}, {indexes}, {files} stand for the files), --kafka-only asks Kafka
alone and counts what it says.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .damage import harm
from .kafka import Answer as KafkaAnswer
from .kafka import Died, Files, Kafka, fill, prepare, read_tree
from .ours import Answer, Klogtool
from .questions import ask

PARTITION_SUFFIXES = (".log", ".checkpoint", ".index", ".snapshot")
LARGEST_FOLDER_BYTES = 8 << 20
WORDS_OF_IDENTITY = re.compile(rb"\[B@[0-9a-f]+")
REPORTS = (
    "Mismatches in :",
    "Found timestamp mismatch in :",
    "Found out of order timestamp in :",
    "The following indexed offsets are not found in :",
    "Non-consecutive offsets in ",
)
REPORT_DETAILS = ("  ", "Indexed offset: ")
SHOWN_PER_KIND = 3


# ---------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A question: damaged files, a command line, and how they came about."""

    name: str
    source: str
    files: Files
    args: Sequence[str]
    story: Sequence[str] = ()
    kinds: Sequence[str] = ()

    def told(self) -> str:
        """For whoever has to look into it."""
        lines = [f"case {self.name}, from {self.source}", *(f"  damage: {line}" for line in self.story)]
        return "\n".join([*lines, f"  asked:  dump-log {shlex.join(self.args)}"])


def find_partitions(paths: Sequence[Path]) -> list[Path]:
    """The folders below that hold segments or snapshots, in order."""
    found = set()
    for path in paths:
        for file in path.rglob("*"):
            if file.suffix in PARTITION_SUFFIXES and file.is_file():
                found.add(file.parent)
    return [
        p for p in sorted(found) if sum(f.stat().st_size for f in p.iterdir() if f.is_file()) <= LARGEST_FOLDER_BYTES
    ]


class Cases:
    """Cases out of partition dirs. The same seed and number give the same case, whatever was asked before."""

    def __init__(self, partitions: Sequence[Path], seed: int, only: str | None = None, args: str | None = None) -> None:
        self._partitions, self._seed, self._only, self._args = partitions, seed, only, args
        self._read: dict[Path, dict[str, bytes]] = {}

    def case(self, number: int) -> Case:
        rng = random.Random(f"{self._seed}:{number}")
        folder = rng.choice(self._partitions)
        files = {f"{folder.name}/{name}": data for name, data in self._content(folder).items()}
        kinds, story = [], []
        for _ in range(1 if self._only else rng.choice((0, 1, 1, 1, 1, 2, 2, 3))):
            kind, words = harm(files, rng, self._only)
            kinds.append(kind)
            story.append(words)
        args = self._fixed_args(files) if self._args else self._question(folder, files, rng)
        return Case(f"{self._seed}-{number}", "/".join(folder.parts[-3:]), files, args, story, kinds)

    def _question(self, folder: Path, files: dict[str, bytes], rng: random.Random) -> list[str]:
        """A command line, drawn again a few times while it leaves out what was damaged."""
        sound = {f"{folder.name}/{name}": data for name, data in self._content(folder).items()}
        stems = [name.rpartition(".")[0] for name in files if files[name] != sound.get(name)]
        for _ in range(4):
            args = ask(files, rng)
            if not stems or any(stem and stem in word for stem in stems for word in args):
                break
        return args

    def _content(self, folder: Path) -> dict[str, bytes]:
        if folder not in self._read:
            names = sorted(path for path in folder.iterdir() if path.is_file())
            self._read[folder] = {path.name: path.read_bytes() for path in names}
        return self._read[folder]

    def _fixed_args(self, files: Files) -> list[str]:
        suffixes = {"{logs}": (".log", ".checkpoint"), "{indexes}": (".index", ".timeindex"), "{files}": ("",)}
        words = shlex.split(self._args or "")
        for word, wanted in suffixes.items():
            listed = ",".join(name for name in sorted(files) if name.endswith(wanted))
            words = [listed if w == word else w for w in words]
        return words


# ---------------------------------------------------------------- the two answers


@dataclass(frozen=True)
class Difference:
    """What is wrong with klogtool's answer, and a short form in which alike ones are counted together."""

    text: str
    likeness: str


def difference(kafka: KafkaAnswer, ours: Answer) -> Difference | None:
    """What klogtool did otherwise than Kafka, or than it may; None if nothing."""
    if ours.misdeed:
        said = ours.stderr.strip().splitlines()[-12:]
        last = said[-1] if said else ""
        return Difference(
            "\n".join([f"  klogtool: {ours.misdeed}", *(f"    {line}" for line in said)]),
            f"{ours.misdeed}: {_alike(last)}",
        )
    if WORDS_OF_IDENTITY.search(kafka.stdout):
        return None
    if ours.stdout != kafka.stdout:
        return _first_difference(ours, kafka)
    if kafka.thrown and not ours.status:
        text = f"  klogtool's status is 0 where Kafka ends with {_thrown(kafka)}"
        return Difference(text, f"status 0, Kafka {kafka.thrown[0]}")
    if not kafka.thrown and reports(ours.stderr) != reports(kafka.stderr):
        return _other_reports(reports(ours.stderr), reports(kafka.stderr))
    return None


def reports(stderr: str) -> list[str]:
    """The reports at the end, file by file in order of path: Kafka's own order hangs on the hashes of the paths.

    Paths are tidied here: Kafka leaves `./` and `/../` in them, and tells a file once for each spelling.
    """
    blocks: list[tuple[int, str, list[str]]] = []
    for line in stderr.splitlines():
        kind = next((i for i, words in enumerate(REPORTS) if line.startswith(words)), None)
        if kind is not None:
            blocks.append((kind, REPORTS[kind] + os.path.normpath(line.removeprefix(REPORTS[kind])), []))
        elif blocks and line.startswith(REPORT_DETAILS):
            blocks[-1][2].append(line)
    once = [block for at, block in enumerate(blocks) if block not in blocks[:at]]
    return [line for _, heading, details in sorted(once) for line in (heading, *details)]


def _other_reports(mine: Sequence[str], theirs: Sequence[str]) -> Difference:
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    show = [lines[at] if at < len(lines) else "(nothing more)" for lines in (theirs, mine)]
    heading = next((line for line in reversed(theirs[: at + 1]) if line.startswith(REPORTS)), "")
    text = f"  in the reports on stderr, under {heading!r}:\n    Kafka    {show[0]}\n    klogtool {show[1]}"
    return Difference(text, f"reports: {_alike(show[0])} | {_alike(show[1])}")


def _first_difference(ours: Answer, kafka: KafkaAnswer) -> Difference:
    theirs, mine = kafka.stdout.split(b"\n"), ours.stdout.split(b"\n")
    at = next((i for i, (a, b) in enumerate(zip(theirs, mine, strict=False)) if a != b), min(len(theirs), len(mine)))
    show = [_line(lines, at) for lines in (theirs, mine)]
    said = ours.stderr.strip().splitlines()
    lines = [
        f"  line {at + 1} of Kafka's {len(theirs)} and klogtool's {len(mine)}:",
        f"    Kafka    {_window(show[0], show[1])}",
        f"    klogtool {_window(show[1], show[0])}",
        f"  Kafka ended with {_thrown(kafka)}; klogtool with status {ours.status}",
        *(f"  klogtool said: {line[:300]}" for line in said[-3:]),
    ]
    seen = [
        _alike(_window(show[0], show[1], 60)),
        _alike(_window(show[1], show[0], 60)),
        str(kafka.thrown and kafka.thrown[0]),
    ]
    return Difference("\n".join(lines), " | ".join(seen))


def _line(lines: Sequence[bytes], at: int) -> str:
    return lines[at].decode(errors="backslashreplace") if at < len(lines) else "(nothing more)"


def _window(line: str, other: str, width: int = 300) -> str:
    """The line from a little before the first character in which it differs."""
    at = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), min(len(line), len(other)))
    start = max(0, at - width // 3)
    return ("..." if start else "") + line[start : start + width] + ("..." if len(line) > start + width else "")


def _alike(text: str) -> str:
    return re.sub(r"\d+", "N", re.sub(r"[0-9a-f]{6,}", "H", text))[:160]


def _thrown(kafka: KafkaAnswer) -> str:
    if kafka.thrown is None:
        return f"status {kafka.exit}"
    return f"{kafka.thrown[0]}: {kafka.thrown[1][:200]}"


# ---------------------------------------------------------------- the run


@dataclass
class Tally:
    """How often each outcome was seen."""

    asked: int = 0
    differing: int = 0
    alike: collections.Counter[str] = field(default_factory=collections.Counter)
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    said: collections.Counter[str] = field(default_factory=collections.Counter)


class Run:
    """Both sides, and what to do with a disagreement."""

    def __init__(self, kafka: Kafka, klogtool: Klogtool | None, keep: Path | None) -> None:
        self.kafka, self.klogtool, self.keep, self.tally = kafka, klogtool, keep, Tally()

    def put(self, case: Case) -> Difference | None:
        """Asks one question. None: the answers agree, or Kafka has none."""
        self.tally.asked += 1
        try:
            kafkas = self.kafka.dump(case.files, case.args)
        except Died as problem:
            self.tally.said[f"Kafka died: {_alike(str(problem))[:60]}"] += 1
            return None
        self.tally.said[
            f"{kafkas.thrown[0]}: {_alike(kafkas.thrown[1])[:90]}" if kafkas.thrown else f"exit {kafkas.exit}"
        ] += 1
        if self.klogtool is None:
            return None
        ours = self.klogtool.dump(case.files, case.args)
        found = difference(kafkas, ours)
        if found:
            self.tally.differing += 1
            self.tally.alike[found.likeness] += 1
            self.tally.kinds.update(case.kinds)
            if self.keep and self.tally.alike[found.likeness] <= SHOWN_PER_KIND:
                keep_case(self.keep / case.name, case, kafkas, ours)
        return found


def keep_case(folder: Path, case: Case, kafkas: KafkaAnswer, ours: Answer) -> None:
    """All that is needed to look into a disagreement, or to ask again."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    fill(folder / "files", case.files)
    (folder / "kafka.stdout").write_bytes(kafkas.stdout)
    (folder / "kafka.stderr").write_text(kafkas.stderr)
    (folder / "klogtool.stdout").write_bytes(ours.stdout)
    (folder / "klogtool.stderr").write_text(ours.stderr)
    told: dict[str, object] = {
        "name": case.name,
        "source": case.source,
        "args": list(case.args),
        "story": list(case.story),
    }
    told |= {"kinds": list(case.kinds), "thrown": kafkas.thrown, "exit": kafkas.exit, "status": ours.status}
    (folder / "case.json").write_text(json.dumps(told, indent=1) + "\n")


def kept_cases(folder: Path) -> Iterator[tuple[Case, KafkaAnswer]]:
    """The disagreements of former runs, with Kafka's answers."""
    for path in sorted(folder.glob("*/case.json")):
        told = json.loads(path.read_text())
        files = read_tree(path.parent / "files")
        case = Case(told["name"], told["source"], files, told["args"], told["story"], told["kinds"])
        thrown = tuple(told["thrown"]) if told["thrown"] else None
        stdout, stderr = (path.parent / "kafka.stdout").read_bytes(), (path.parent / "kafka.stderr").read_text()
        yield case, KafkaAnswer(stdout, stderr, told["exit"], thrown)


def ask_again(folder: Path, reader: str) -> int:
    """klogtool's answers to kept cases against Kafka's kept answers; how many still differ."""
    differing = 0
    with Klogtool(reader) as klogtool:
        for case, kafkas in kept_cases(folder):
            found = difference(kafkas, klogtool.dump(case.files, case.args))
            if found:
                differing += 1
                print(case.told(), found.text, sep="\n")
    print(f"{differing} still differ")
    return differing


def fuzz(options: argparse.Namespace) -> int:
    """As many cases as asked for, or as fit the time; how many differ."""
    partitions = find_partitions(options.paths)
    if not partitions:
        sys.exit(f"no partition dirs below {', '.join(map(str, options.paths))}")
    cases, started = Cases(partitions, options.seed, options.only, options.args), time.monotonic()
    with Kafka(prepare()) as kafka, Klogtool(options.reader) as klogtool:
        run = Run(kafka, None if options.kafka_only else klogtool, options.keep)
        for number in range(options.first, options.first + options.count):
            if options.seconds and time.monotonic() - started > options.seconds:
                break
            case = cases.case(number)
            if options.verbose:
                print(case.told(), flush=True)
            found = run.put(case)
            if found and run.tally.alike[found.likeness] <= SHOWN_PER_KIND:
                print(case.told(), found.text, "", sep="\n", flush=True)
        report(run.tally, time.monotonic() - started, options.kafka_only)
    return run.tally.differing


def report(tally: Tally, seconds: float, kafka_only: bool) -> None:
    if kafka_only:
        for words, count in tally.said.most_common():
            print(f"{count:6} {words}")
    else:
        for likeness, count in tally.alike.most_common(40):
            print(f"{count:6} {likeness}")
        if tally.kinds:
            print("kinds of damage in them:", ", ".join(f"{kind} {n}" for kind, n in tally.kinds.most_common()))
    print(f"{tally.asked} questions, {tally.differing} answered otherwise, {seconds:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, help="stop after that, even if --count is not reached")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", help="only kinds of damage with this in their name, one a case")
    parser.add_argument("--args", help="this command line for every case")
    parser.add_argument("--again", type=Path, help="ask klogtool the kept cases of this folder again")
    parser.add_argument(
        "--reader", choices=("kernel", "reference"), default="kernel", help="which of klogtool's is asked"
    )
    parser.add_argument("--kafka-only", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell each case before it is asked")
    options = parser.parse_args()
    return 1 if (ask_again(options.again, options.reader) if options.again else fuzz(options)) else 0


if __name__ == "__main__":
    sys.exit(main())
