#!/usr/bin/env python3
"""Choose the fixtures out of a folder of corpora: `make_fixtures.py CORPUS_DIR [FIXTURES_DIR]`.

A corpus is a log dir that a real broker wrote, with Kafka 4.3.1's answers about it (`golden/`). A fixture is one state
of one corpus, its log dir whole (a checkpoint file must not name partitions that are not there), with the answers about
the partitions chosen below. Nothing is made up here and nothing is changed: the same corpora give the same fixtures.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import pathlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass

LARGEST_FILE_BYTES = 200_000


@dataclass(frozen=True)
class Scenario:
    """One fixture: its name, the line that tells its story, where it comes from, which folders are asked about.

    after: a later state, of which there is a partition dir for each that is in this one.
    """

    name: str
    story: str
    corpus: str
    state: str = "logdir"
    asked: tuple[str, ...] = ("*",)
    after: str | None = None


SCENARIOS = (
    Scenario("magic-0", "Messages of magic 0 in every codec, lz4 with the broken header checksum.", "0.8.2.2-codecs"),
    Scenario(
        "magic-1",
        "Messages of magic 1 in every codec, with CreateTime and LogAppendTime.",
        "0.10.2.2-codecs",
        asked=("create-*", "append-3"),
    ),
    Scenario(
        "three-magics",
        "One log dir carried from 0.8.2.2 to 3.9.2: magic 0, 1 and 2 in one partition.",
        "3.9.2-upgrade",
        asked=("packed-0",),
    ),
    Scenario(
        "every-codec",
        "Record batches (magic 2) in every codec, with headers, nulls, empty and binary values.",
        "4.3.1-codecs",
        asked=("create-*", "append-1", "append-4", "numbers-0"),
    ),
    Scenario(
        "transactions", "Committed, aborted, empty and open transactions in two partitions.", "4.3.1-transactions"
    ),
    Scenario(
        "groups", "Classic, consumer and share groups: all that their internal topics hold.", "4.3.1-groups-share"
    ),
    Scenario("metadata", "A KRaft controller's metadata log with snapshots and quorum-state.", "4.3.1-metadata"),
    Scenario("tiered", "Segments gone to remote storage, and the topic that knows where they are.", "4.3.1-tiered"),
    Scenario(
        "leader-epochs", "One partition over five lives of a broker, two of them ended by a kill.", "3.9.2-epochs"
    ),
    Scenario(
        "killed-mid-append",
        "A broker killed while it appended, then a wound for each topic.",
        "4.3.1-crash",
        asked=("torn-tail-0", "zero-tail-0", "flip-bit-0", "remove-timeindex-0", "__*"),
        after="after",
    ),
    Scenario(
        "compacted",
        "Two compacted topics after the cleaner ran twice: tombstones, delete horizons, .deleted segments.",
        "4.3.1-compaction",
        state="result-2",
        asked=("keep-0", "gone-0"),
    ),
    Scenario(
        "two-disks",
        "Two log dirs of one broker, with a -future, a -stray and a -delete folder.",
        "4.3.1-jbod",
        asked=("ghost-0.*", "t-0.*", "t-1", "t-1.*"),
    ),
    Scenario(
        "retention",
        "Retention at work: .deleted segments, a -delete folder, a log start inside a segment.",
        "3.9.2-retention",
        asked=("size-0", "inside-0", "dropped-0.*"),
    ),
)


def is_asked(scenario: Scenario, file: str) -> bool:
    """Is this file (relative to the corpus) in the scenario's state, in a folder whose answers are kept?"""
    state, *rest = file.split("/")
    return state == scenario.state and any(fnmatch.fnmatchcase(name, want) for name in rest for want in scenario.asked)


def files_of(argv: list[str]) -> list[str]:
    """The files that a recorded dump command names."""
    return [file for option, value in itertools.pairwise(argv) if option == "--files" for file in value.split(",")]


def kept_commands(scenario: Scenario, corpus: pathlib.Path) -> Iterator[dict[str, object]]:
    """The recorded commands that name only files of the fixture (a missing file included)."""
    for line in (corpus / "golden/commands.jsonl").read_text(encoding="utf-8").splitlines():
        command = json.loads(line)
        files = files_of(command["argv"])
        if files and all(is_asked(scenario, file) for file in files):
            yield {name: command[name] for name in ("id", "argv", "stdout", "exit")}


def kept_records(scenario: Scenario, corpus: pathlib.Path) -> Iterator[str]:
    for line in (corpus / "golden/records.jsonl").read_text(encoding="utf-8").splitlines(keepends=True):
        if is_asked(scenario, json.loads(line)["file"]):
            yield line


def kept_times(scenario: Scenario, corpus: pathlib.Path) -> dict[str, int]:
    times: dict[str, int] = json.loads((corpus / "golden/mtimes.json").read_text(encoding="utf-8"))
    return {file: ms for file, ms in times.items() if file.split("/")[0] == scenario.state}


def copy(source: pathlib.Path, target: pathlib.Path) -> None:
    size = source.stat().st_size
    if size > LARGEST_FILE_BYTES:
        raise SystemExit(f"{source}: {size} bytes are too many for a fixture")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def readme(scenario: Scenario, corpus: pathlib.Path) -> str:
    told = (corpus / "README.md").read_text(encoding="utf-8").split("\n", 2)[2].replace("`shared/", "`../shared/")
    return (
        f"# {scenario.name}\n\n{scenario.story}\n\n"
        f"`{scenario.state}/` of corpus `{scenario.corpus}`, chosen by `tools/make_fixtures.py`;"
        f" answers in `golden/` by Kafka 4.3.1.\n\n## The corpus\n\n{told}"
    )


def make(scenario: Scenario, corpora: pathlib.Path, fixtures: pathlib.Path) -> int:
    """Write one fixture anew; returns its size in bytes."""
    corpus, fixture = corpora / scenario.corpus, fixtures / scenario.name
    shutil.rmtree(fixture, ignore_errors=True)
    for source in sorted((corpus / scenario.state).rglob("*")):
        if source.is_file():
            copy(source, fixture / source.relative_to(corpus))
    if scenario.after is not None:
        partitions = [path.name for path in (fixture / scenario.state).iterdir() if path.is_dir()]
        for source in sorted(itertools.chain(*((corpus / scenario.after / name).rglob("*") for name in partitions))):
            copy(source, fixture / source.relative_to(corpus))
    golden = fixture / "golden"
    golden.mkdir()
    commands = list(kept_commands(scenario, corpus))
    for command in commands:
        copy(corpus / str(command["stdout"]), fixture / str(command["stdout"]))
    (golden / "commands.jsonl").write_text("".join(json.dumps(c) + "\n" for c in commands), encoding="utf-8")
    (golden / "records.jsonl").write_text("".join(kept_records(scenario, corpus)), encoding="utf-8")
    (golden / "mtimes.json").write_text(json.dumps(kept_times(scenario, corpus), indent=0) + "\n", encoding="utf-8")
    (fixture / "README.md").write_text(readme(scenario, corpus), encoding="utf-8")
    return sum(file.stat().st_size for file in fixture.rglob("*") if file.is_file())


def main(argv: list[str]) -> None:
    if len(argv) not in (1, 2):
        raise SystemExit(__doc__)
    fixtures = pathlib.Path(argv[1]) if len(argv) == 2 else pathlib.Path(__file__).resolve().parent.parent / "fixtures"
    for scenario in SCENARIOS:
        print(f"{scenario.name:20} {make(scenario, pathlib.Path(argv[0]), fixtures):8,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
