"""What verify says of consumers, tried with Kafka's own: one broker, a partition for each wound.

`Probe` of the judge reads each partition from its start, and seeks past an offset at which the consumer fails.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from raw_batches import build_batch

from klogtool.broker.circumstances import Circumstances
from klogtool.format.batch import Record
from klogtool.format.message import build_message
from klogtool.format.names import FileKind, build_file_name
from klogtool.render.findings import explained_text
from klogtool.verify.findings import Finding
from klogtool.verify.verification import VerifyOptions, verify

from . import layout
from .beside import SHARED, module_beside
from .brokers import a_broker
from .kafka import BRIEF_JVM, scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared]
NOW_MS = 1_800_000_000_000
BATCHES, EACH = 10, 3


def batch(first: int, count: int = EACH, **fields: Any) -> bytes:
    """A batch of records, with other fields under a right checksum."""
    made = build_batch([Record(first + n, 1000 + first + n, b"k", b"value %d" % n) for n in range(count)])
    for field, value in fields.items():
        made = layout.with_field(made, layout.BATCH, field, value)
    return layout.sealed(made)


SOUND = [batch(n * EACH) for n in range(BATCHES)]
EVERY = list(range(BATCHES * EACH))
BAD = 2  # the number of the wounded batch
ITS = [6, 7, 8]


def instead(bad: bytes) -> bytes:
    return b"".join([*SOUND[:BAD], bad, *SOUND[BAD + 1 :]])


def with_byte(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + bytes([data[at] ^ value]) + data[at + 1 :]


def old(*values: tuple[int, int, bytes | None]) -> bytes:
    """Messages of magic 0: offset, attributes, value."""
    return b"".join(build_message(offset, b"k", value, magic=0, attributes=flags) for offset, flags, value in values)


PLAIN = [(0, 0, b"a"), (1, 0, b"b"), (2, 0, b"c")]


def squeezed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


OTHERS = [offset for offset in EVERY if offset not in ITS]
HIGHER = [*EVERY[:6], *EVERY[22:]]  # 6 becomes 22
NOT_NINE = [offset for offset in EVERY if offset != 9]
# Of each wound: the log, the finding's id and field, what a consumer gets, where it stops first (None: nowhere).
Case = tuple[bytes, str, str | None, Sequence[int], int | None]
CASES: Mapping[str, Case] = {
    "a bit of the records": (instead(with_byte(SOUND[BAD], 70, 1)), "batch-crc", None, OTHERS, 6),
    "a higher offset": (instead(with_byte(SOUND[BAD], 7, 16)), "batch-header", "base_offset", HIGHER, None),
    "a lower offset": (instead(with_byte(SOUND[BAD], 7, 4)), "batch-header", "base_offset", OTHERS, None),
    "an epoch": (instead(with_byte(SOUND[BAD], 15, 8)), "batch-header", "partition_leader_epoch", EVERY, None),
    "magic 3": (instead(with_byte(SOUND[BAD], 16, 1)), "batch-header", "magic", OTHERS, 6),
    "magic 0": (instead(with_byte(SOUND[BAD], 16, 2)), "batch-header", "magic", [], 0),
    "a codec": (instead(batch(6, attributes=5)), "batch-attributes", "codec", EVERY[9:], 0),
    "a flag": (instead(batch(6, attributes=0x80)), "batch-attributes", "attributes", EVERY, None),
    "a delta": (instead(batch(6, last_offset_delta=-1)), "batch-attributes", "last_offset_delta", EVERY, None),
    "a producer": (instead(batch(6, attributes=0x10)), "batch-attributes", "producer", EVERY, None),
    "no records": (instead(batch(6, records_count=0)), "batch-attributes", "size", OTHERS, None),
    "too many records": (instead(batch(6, records_count=4)), "batch-attributes", "records_count", NOT_NINE, 9),
    "an old producer": (
        b"".join([SOUND[0], batch(3, last_offset_delta=0), batch(4, 1), batch(5, 1), *SOUND[2:]]),
        *("batch-attributes", "records_count", EVERY, None),
    ),
    "foreign bytes": (
        b"".join([*SOUND[:BAD], b"this is no batch at all", *SOUND[BAD:]]),
        *("foreign-bytes", None, EVERY[:6], None),
    ),
    "reversed batches": (
        b"".join([*SOUND[:BAD], SOUND[BAD + 1], SOUND[BAD], *SOUND[BAD + 2 :]]),
        *("offset-order", None, OTHERS, None),
    ),
    "a batch moved ahead": (
        b"".join([*SOUND[:BAD], SOUND[-1], *SOUND[BAD:-1]]),
        *("offset-order", None, [*EVERY[:6], *EVERY[27:]], None),
    ),
    "a batch twice": (b"".join([*SOUND[: BAD + 1], *SOUND[BAD:]]), "offset-order", None, EVERY, None),
    "a largest timestamp": (instead(batch(6, max_timestamp=5)), "records-invalid", "header", EVERY, None),
    "no gzip": (instead(batch(6, attributes=1)), "records-invalid", None, OTHERS, 6),
    "a set in a set": (
        old(*PLAIN, (5, 1, squeezed(old((0, 1, squeezed(old(*PLAIN))))))) + old((6, 0, b"z")),
        *("records-invalid", None, EVERY[:3], 3),
    ),
    "an empty set": (old(*PLAIN, (5, 1, squeezed(b"")), (6, 0, b"z")), "records-invalid", None, EVERY[:3], 3),
}


def findings_of(folder: pathlib.Path) -> list[Finding]:
    """The errors in the log."""
    options = VerifyOptions(Circumstances(now_ms=NOW_MS), deep=True)
    found = [found for found in verify([str(folder)], options) if isinstance(found, Finding)]
    return [finding for finding in found if finding.severity.value == "error"]


def told_of(finding: Finding) -> str:
    """What the text says of consumers: the sentences that name them."""
    return " ".join(part for part in explained_text(finding).split(". ") if "onsumers" in part)


def hidden_by(findings: list[Finding], got: Sequence[int]) -> set[int]:
    """The offsets that they say are behind later ones. got: those that a consumer was given."""
    pattern = r"offsets (\d+) to (\d+), are behind later ones(?:, and so is what follows up to offset (\d+))?"
    spans = [span for finding in findings for span in re.findall(pattern, finding.detail)]
    alone = {offset for first, last, _ in spans for offset in range(int(first), int(last) + 1)}
    more = {offset for first, _, most in spans if most for offset in range(int(first), int(most) + 1)}
    return alone | more - {*got}


def read(broker: Any, version: str, topic: str, count: int) -> dict[int, dict[str, Any]]:
    """What Probe says of each partition, read_uncommitted."""
    brokers, source = module_beside("brokers/broker.py"), SHARED / "judge/Probe.java"
    if not source.exists():
        pytest.skip("no ../shared/judge/Probe.java beside the project")
    names = [f"{topic}-{n}" for n in range(count)]
    words = ["java", *BRIEF_JVM, "-cp", brokers.classpath(version), str(source), broker.bootstrap, "read", *names]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {int(row["tp"].rsplit("-", 1)[1]): row for row in rows if row["iso"] == "read_uncommitted"}


def write(folder: pathlib.Path, log: bytes) -> None:
    folder.mkdir(parents=True)
    for kind, data in ((FileKind.LOG, log), (FileKind.OFFSET_INDEX, b""), (FileKind.TIME_INDEX, b"")):
        (folder / build_file_name(kind, 0)).write_bytes(data)


@pytest.mark.slow
def test_consumers_do_what_the_findings_say() -> None:
    scratch = scratch_folder("klogtool-brokers-wounds-")
    try:
        with a_broker("4.3.1", scratch / "broker") as broker:
            broker.start()
            broker.create_topic("w", len(CASES), retention_ms=-1)
            broker.stop()
            for n, (name, (log, *_)) in enumerate(CASES.items()):
                write(scratch / name, log)
                broker.plant(scratch / name, "w", n, clean=True)
            broker.start()
            rows = read(broker, "4.3.1", "w", len(CASES))
            broker.stop()
        for n, (name, case) in enumerate(CASES.items()):
            check(scratch / name, name, case, rows[n])
    finally:
        shutil.rmtree(scratch)


def check(folder: pathlib.Path, name: str, case: Case, row: dict[str, Any]) -> None:
    _, finding_id, field, expected, stop = case
    found = [finding for finding in findings_of(folder) if (finding.id, finding.field) == (finding_id, field)]
    assert found, (name, findings_of(folder))
    got = [offset for offset, _ in row["records"]]
    stuck = row["stuck"].split(":")[0]
    assert got == list(expected), name
    assert (int(stuck) if stuck else None) == stop, (name, row["stuck"])
    told = told_of(found[0])
    if finding_id != "foreign-bytes":  # there the log ends, so nothing fails
        assert ("stop" in told) == (stop is not None) or "miss" in told or "pass over" in told, (name, told)
    harmless = ("read on" in told, "do not notice" in told, "as they are" in told)
    assert any(harmless) <= (stop is None and got == EVERY), (name, told)
    if finding_id == "offset-order":
        assert hidden_by(found, got) == {*EVERY} - {*got}, name
