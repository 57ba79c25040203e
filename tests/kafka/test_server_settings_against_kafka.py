"""What klogtool says that a release refuses of a broker's settings, compared with Kafka's own classes (KafkaConfig)."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from refused_settings import SETTINGS, TOGETHER, on_top
from running import ROOT

from klogtool.broker.releases import Release, rules_of
from klogtool.broker.server_rules import find_refusals
from klogtool.broker.server_settings import Definition, definitions

from .brokers import fetched
from .kafka import BRIEF_JVM

sys.path.append(str(ROOT / "tools"))
from extract_settings import parse_row

pytestmark = pytest.mark.kafka
SOURCE = pathlib.Path(__file__).with_name("ServerSettings.java")
RELEASES: tuple[Release, ...] = ("4.3.1", "3.9.2", "4.4.0")
PAIRS = 1500
NO_ROUTE = "1@0.0.0.0:9093"
NOT_ROUTABLE = ("ConfigException", "Host string (0.0.0.0) is not routeable")


def answers(release: Release, files: Sequence[dict[str, str]], work: pathlib.Path, *words: str) -> list[str]:
    """What Kafka says of each file; with words, the lines of its table."""
    jars = fetched(release).cache_home() / release / "jars"
    command = ["javac", "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", str(work), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    text = "".join("\0".join(f"{name}={value}" for name, value in file.items()) + "\n" for file in files)
    command = ["java", *BRIEF_JVM, "-cp", f"{work}:{jars}/*", SOURCE.stem, *words]
    done = subprocess.run(command, input=text.encode(), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [line[1:] for line in done.stdout.decode().splitlines() if line.startswith(">")]


def values_of(row: Definition) -> Iterator[str]:
    """At the bounds, beside them, and of another type."""
    if row.type in ("int", "short", "long", "double"):
        for bound in (row.least, row.most):
            yield from () if bound is None else (str(bound), str(bound - 1), str(bound + 1))
        yield from ("", "x", "1.5", "-1", " 7 ", "+7", "99999", "3000000000", "99999999999999999999", "1_000", "1e3")
    elif row.type == "boolean":
        yield from ("True", " false", "yes", "")
    else:
        yield from ("", ",", "x", *row.words, *map(str.lower, row.words), ",".join(row.words))


def is_judged(file: dict[str, str]) -> bool:
    """Assignors may be on a class path that nobody knows here, a process with ZooKeeper is not judged, and KafkaConfig
    does not ask for the class of a remote storage."""
    others = (
        "remote.log.storage.system.enable",
        *(f"group.{kind}.assignors" for kind in ("consumer", "share", "streams")),
    )
    return bool(file.get("process.roles", "x").strip(" ,")) and file.keys().isdisjoint(others)


def law(release: Release, files: Sequence[dict[str, str]], work: pathlib.Path) -> None:
    differ = []
    files = [*filter(is_judged, files)]
    for file, said in zip(files, answers(release, files, work), strict=True):
        found = [(str(one.kafka_class), one.reason) for one in find_refusals(file, rules_of(release))[:1]]
        expected = [tuple(said.split("\t", 1))] if said else []
        if file.get("controller.quorum.voters") == NO_ROUTE and found == [NOT_ROUTABLE]:
            continue  # KafkaRaftManager looks once more
        if release == "3.9.2":  # its lists are shown in another way
            found, expected = [one[:1] for one in found], [one[:1] for one in expected]
        if found != expected and NOT_ROUTABLE not in expected:
            differ.append((dict(file.items() - SETTINGS.items()), found, expected))
    assert differ == []


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_is_that_of_the_release(release: Release, tmp_path: pathlib.Path) -> None:
    rows = filter(None, map(parse_row, answers(release, [], tmp_path, "table")))
    own = [
        {
            name: value
            for name in row.__struct_fields__
            if (value := getattr(row, name)) not in (None, (), False) or value == 0
        }
        for row in definitions(release).values()
    ]
    for row in own:
        for name in ("since", "until", *(name for name, value in row.items() if value is False)):
            row.pop(name, None)
    kafkas = [{name: tuple(value) if name == "words" else value for name, value in row} for row in rows]
    assert sorted(own, key=str) == sorted(kafkas, key=str)


@pytest.mark.parametrize("release", RELEASES)
def test_each_value_is_judged_as_the_release_judges_it(release: Release, tmp_path: pathlib.Path) -> None:
    rows = definitions(release).values()
    law(release, [on_top({row.name: value}) for row in rows for value in values_of(row)], tmp_path)


@pytest.mark.parametrize("release", RELEASES)
def test_settings_are_judged_together_as_the_release_judges_them(release: Release, tmp_path: pathlib.Path) -> None:
    chance = random.Random(7)
    pairs = [on_top(*chance.sample(TOGETHER, 2)) for _ in range(PAIRS)]
    law(release, [*map(on_top, TOGETHER), *pairs], tmp_path)
