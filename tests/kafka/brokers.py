"""Real brokers over what klogtool wrote: started and stopped, and what they say, serve and leave."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, TypeAlias

import pytest

from klogtool.log.partition import Partition
from klogtool.log.segment import Segment

from .beside import module_beside
from .kafka import cache_folder

VERSIONS = ("4.3.1", "3.9.2")
# What a broker says (LogSegment, LogLoader) when it cuts a log.
CUTS = ("Found invalid messages in log segment", "Corruption found in segment", "Deleting all segments")

# offset, key, value
Served: TypeAlias = list[tuple[int, bytes | None, bytes | None]]


def fetched(version: str) -> ModuleType:
    """The module of ../shared that runs brokers, with the jars of a release. Skips where these cannot be had."""
    module = module_beside("brokers/broker.py")
    knows_4_4_0(module)
    is_fetched = (module.cache_home() / version / "complete").exists()
    if not is_fetched and shutil.which("mvn") is None:
        pytest.skip(f"needs mvn: it is not on the PATH, and a broker {version} was not fetched before")
    try:
        module.fetch(version)
    except (module.BrokerError, subprocess.SubprocessError) as problem:
        pytest.skip(f"needs mvn: it could not fetch a broker {version}: {problem}")
    return module


def knows_4_4_0(module: ModuleType) -> None:
    """Tell the helper beside the project how to fetch that release."""
    if "4.4.0" not in module.RELEASES:
        known = module.RELEASES["4.3.1"]
        others = [jar for jar in known.artifacts if "kafka-tools" not in jar]
        newer = tuple(re.sub(r"(log4j.*):2\.[\d.]+$", r"\1:2.25.5", jar).replace(":4.3.1", ":4.4.0") for jar in others)
        module.RELEASES["4.4.0"] = dataclasses.replace(known, artifacts=newer)


def classes_of(version: str) -> pathlib.Path:
    """The archive with a release's classes as a JVM has them in memory. judge/bases.py makes it."""
    return cache_folder() / f"classes-{version}.jsa"


def share_classes(broker: Any) -> Any:
    """Have the JVMs of a broker take their classes out of the archive, where there is one: a start takes 4 CPU seconds
    in place of 7. A JVM that the archive does not fit goes on without it."""
    if (archive := classes_of(broker.version)).exists():
        with_options(broker, f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")
    return broker


def with_options(broker: Any, *options: str) -> None:
    """Have the JVMs of a broker start with these options as well."""
    broker.release = dataclasses.replace(broker.release, jvm=(*broker.release.jvm, *options))


@contextmanager
def a_broker(version: str, work: pathlib.Path, **options: Any) -> Iterator[Any]:
    """A broker of ../shared that is not started yet; nothing of it is left running. Skips where it cannot be had."""
    broker = share_classes(fetched(version).Broker(version, work, **options))
    try:
        yield broker
    finally:
        broker.close()


def served(broker: Any, topic: str, **asked: Any) -> Served:
    """What a consumer gets of partition 0, from the log start on."""
    return [(record.offset, record.key, record.value) for record in broker.consume(topic, 0, **asked)]


def records_of(partition: pathlib.Path) -> Served:
    """All records of a sound partition that a consumer sees: not those of markers."""
    return [
        (record.offset, record.key, record.value)
        for segment in Partition(str(partition)).segments
        for batch in Segment(segment.path).batches()
        if not batch.is_control
        for record in batch.records()
    ]


def kept_files(partition: pathlib.Path) -> Mapping[str, bytes]:
    """All files that a start leaves as they are: not those it removes, and not leader epochs, since a leader of its own
    comes to be; nor the topic's id, which is the broker's."""
    others = ("leader-epoch-checkpoint", "partition.metadata")
    found = {path.name: path.read_bytes() for path in sorted(partition.iterdir())}
    return {name: data for name, data in found.items() if name not in others and not name.endswith(".deleted")}
