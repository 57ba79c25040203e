"""Index files as kafka-dump-log prints them; each answer below is the one that Kafka 4.3.1 gave.

The log beside them: three batches, at bytes 0, 81 and 167, with last offsets 1, 21 and 23.
"""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

import pytest
from vectors import BATCH, BATCH_EMPTIED, BATCH_GZIP, BATCH_WITH_HEADERS, MAGIC_1_GZIP

from klogtool.errors import KlogError
from klogtool.render.kafka_dump import KafkaDump
from klogtool.render.kafka_options import KafkaArguments, KafkaOptions

LOG = BATCH.data + BATCH_WITH_HEADERS.data + BATCH_GZIP.data
TIMES = (0x174876E8005, 0x174876E83E9, 0x174876E87D1)  # the largest timestamp of each batch
INDEX = "00000001 00000000  00000015 00000051  00000017 000000a7"
TIME_INDEX = "00000174876e8005 00000001  00000174876e83e9 00000015  00000174876e87d1 00000017"


@dataclass(frozen=True)
class Case:
    """index and time_index: hex. lines: what is printed behind "Dumping". reports: on stderr, where nothing ended it.

    dies: the class of what Kafka's tool dies of.
    """

    index: str = INDEX
    time_index: str = TIME_INDEX
    options: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()
    dies: str | None = None
    log: bytes = LOG
    base: int = 0


def offsets(*pairs: tuple[int, int]) -> tuple[str, ...]:
    return tuple(f"offset: {offset} position: {position}" for offset, position in pairs)


def times(*pairs: tuple[int, int]) -> tuple[str, ...]:
    return tuple(f"timestamp: {timestamp} offset: {offset}" for timestamp, offset in pairs)


SOUND = offsets((1, 0), (21, 81), (23, 167))
SOUND_TIMES = times((TIMES[0], 1), (TIMES[1], 21), (TIMES[2], 23))
MISMATCH = "Mismatches in :{}"
OFFSET_CASES = {
    "sound": Case(lines=SOUND),
    "an odd length": Case(index=INDEX + "00000018 00", lines=SOUND),
    "zeros behind": Case(index=INDEX + "00" * 40, lines=SOUND),
    "zeros only": Case(
        index="00" * 24,
        lines=offsets((0, 0)),
        reports=(MISMATCH, "  Index offset: 0, log offset: 1"),
    ),
    "nothing": Case(index="", lines=("{} is empty.",)),
    "less than an entry": Case(index="00000001 000000", lines=("{} is empty.",)),
    "nothing, sanity": Case(index="", options=("index_sanity_check",), lines=("{} is empty.",)),
    "sound, sanity": Case(options=("index_sanity_check",), lines=("{} passed sanity check.",)),
    "an odd length, sanity": Case(index=INDEX + "00", options=("index_sanity_check",), dies="CorruptIndexException"),
    "zeros behind, sanity": Case(
        index=INDEX + "00" * 8, options=("index_sanity_check",), lines=("{} passed sanity check.",)
    ),
    "sound, verify": Case(options=("verify_index_only",)),
    "first offsets, as brokers before 2.0 wrote them": Case(
        index="00000000 00000000  00000014 00000051",
        lines=offsets((0, 0), (20, 81)),
        reports=(MISMATCH, "  Index offset: 20, log offset: 21", "  Index offset: 0, log offset: 1"),
    ),
    "mismatches, verify": Case(
        index="00000005 00000000",
        options=("verify_index_only",),
        reports=(MISMATCH, "  Index offset: 5, log offset: 1"),
    ),
    "the same offset twice": Case(
        index="00000005 00000000  00000005 00000051",
        lines=offsets((5, 0), (5, 81)),
        reports=(MISMATCH, "  Index offset: 5, log offset: 21"),
    ),
    "a position at the end": Case(
        index="00000001 00000000  00000015 0000010e", lines=offsets((1, 0)), dies="NoSuchElementException"
    ),
    "a position behind the end": Case(
        index="00000001 00000000  00000015 0000010f", lines=offsets((1, 0)), dies="IllegalArgumentException"
    ),
    "a negative position": Case(index="00000001 ffffffff", dies="IllegalArgumentException"),
    "a position in the middle of a batch": Case(index="00000001 00000001", dies="NoSuchElementException"),
    "a position where a length cannot be": Case(index="00000001 00000004", dies="CorruptRecordException"),
    "a message size that just fits": Case(options=("max_message_size=103",), lines=SOUND),
    "a message size too small for the last": Case(
        options=("max_message_size=102",), lines=SOUND[:2], dies="NoSuchElementException"
    ),
    "a message size of a header": Case(options=("max_message_size=17",), dies="NoSuchElementException"),
    "a negative message size": Case(options=("max_message_size=-1",), dies="IllegalArgumentException"),
    "a base offset": Case(
        base=1000,
        lines=offsets((1001, 0), (1021, 81), (1023, 167)),
        reports=(
            MISMATCH,
            "  Index offset: 1023, log offset: 23",
            "  Index offset: 1021, log offset: 21",
            "  Index offset: 1001, log offset: 1",
        ),
    ),
    "a negative relative offset": Case(
        index="ffffffff 00000000",
        lines=offsets((-1, 0)),
        reports=(MISMATCH, "  Index offset: -1, log offset: 1"),
    ),
    "offsets that wrap": Case(
        base=2**63 - 1,
        index="00000001 00000000",
        lines=offsets((-(2**63), 0)),
        reports=(MISMATCH, f"  Index offset: {-(2**63)}, log offset: 1"),
    ),
    "old messages": Case(log=MAGIC_1_GZIP.data, index="0000000c 00000000", lines=offsets((12, 0))),
}
NOT_FOUND = "The following indexed offsets are not found in :{}"
TIME_CASES = {
    "sound": Case(lines=SOUND_TIMES),
    "zeros behind": Case(time_index=TIME_INDEX + "00" * 24, lines=SOUND_TIMES),
    "zeros only": Case(
        time_index="00" * 24,
        lines=times((0, 0)),
        reports=(NOT_FOUND, "Indexed offset: 0, found log offset: 1"),
    ),
    "nothing": Case(time_index=""),
    "nothing, sanity": Case(time_index="", options=("index_sanity_check",), lines=("{} passed sanity check.",)),
    "sound, sanity": Case(options=("index_sanity_check",), lines=("{} passed sanity check.",)),
    "an odd length, sanity": Case(
        time_index=TIME_INDEX + "00", options=("index_sanity_check",), dies="CorruptIndexException"
    ),
    "sound, verify": Case(options=("verify_index_only",)),
    "an empty offset index": Case(index="", lines=SOUND_TIMES),
    "another timestamp": Case(
        time_index="00000174876e8004 00000001",
        lines=times((TIMES[0] - 1, 1)),
        reports=(
            "Found timestamp mismatch in :{}",
            f"  Index timestamp: {TIMES[0] - 1}, log timestamp: {TIMES[0]}",
        ),
    ),
    "the same entry twice": Case(
        time_index="00000174876e8005 00000001  00000174876e8005 00000001",
        lines=times((TIMES[0], 1), (TIMES[0], 1)),
        reports=(
            "Found out of order timestamp in :{}",
            f"  Index timestamp: {TIMES[0]}, Previously indexed timestamp: {TIMES[0]}",
        ),
    ),
    "falling timestamps": Case(
        time_index="00000174876e83e9 00000015  00000174876e8005 00000001",
        lines=times((TIMES[1], 21), (TIMES[0], 1)),
        reports=(
            "Found out of order timestamp in :{}",
            f"  Index timestamp: {TIMES[0]}, Previously indexed timestamp: {TIMES[1]}",
        ),
    ),
    "an offset inside a batch": Case(
        time_index="00000174876e8005 00000005",
        lines=times((TIMES[0], 5)),
        reports=(NOT_FOUND, "Indexed offset: 5, found log offset: 21"),
    ),
    "an offset behind the log": Case(
        time_index="00000174876e8005 00000018",
        lines=times((TIMES[0], 24)),
        reports=(NOT_FOUND, "Indexed offset: 24, found log offset: -1"),
    ),
    "the offset index sends too far": Case(
        index="00000001 00000051",
        time_index="00000174876e8005 00000001",
        lines=times((TIMES[0], 1)),
        reports=(NOT_FOUND, "Indexed offset: 1, found log offset: 21"),
    ),
    "the offset index sends behind the log": Case(
        index="00000001 0000010f", time_index="00000174876e8005 00000001", dies="IllegalArgumentException"
    ),
    "the offset index sends to the end of the log": Case(
        index="00000001 0000010e",
        time_index="00000174876e8005 00000001",
        lines=times((TIMES[0], 1)),
        reports=(NOT_FOUND, "Indexed offset: 1, found log offset: -1"),
    ),
    "the offset index sends into a batch": Case(
        index="00000001 00000004", time_index="00000174876e8005 00000001", dies="CorruptRecordException"
    ),
    "an emptied batch": Case(
        log=BATCH_EMPTIED.data,
        index="",
        time_index="00000174876e800a 00000006",
        lines=times((1600000000010, 6)),
        reports=("Found timestamp mismatch in :{}", "  Index timestamp: 1600000000010, log timestamp: -1"),
    ),
    "old messages": Case(
        log=MAGIC_1_GZIP.data,
        index="",
        time_index="00000174876e8005 0000000c",
        lines=times((1600000000005, 12)),
    ),
    "a log that ends in zeros": Case(log=LOG + bytes(18), dies="CorruptRecordException"),
    "first into a batch, then to where the log ends in zeros": Case(
        log=LOG + bytes(18),
        index="00000001 00000001  00000015 00000051",
        time_index=TIME_INDEX,
        lines=SOUND_TIMES[:1],
        dies="CorruptRecordException",
    ),
    "a log that ends in a tail": Case(log=LOG + b"tail", lines=SOUND_TIMES),
    "an empty log": Case(
        log=b"",
        index="",
        time_index="00000174876e8005 00000001",
        lines=times((TIMES[0], 1)),
        reports=(NOT_FOUND, "Indexed offset: 1, found log offset: -1"),
    ),
}


def lay_out(case: Case, folder: pathlib.Path, suffix: str) -> str:
    """The three files in a folder; the path of the one to dump."""
    stem = folder / f"{case.base:020d}"
    stem.with_suffix(".log").write_bytes(case.log)
    stem.with_suffix(".index").write_bytes(bytes.fromhex(case.index))
    stem.with_suffix(".timeindex").write_bytes(bytes.fromhex(case.time_index))
    return str(stem.with_suffix(suffix))


def dump(path: str, options: tuple[str, ...]) -> tuple[list[str], list[str], KlogError | None]:
    """Lines behind "Dumping", reports, and the error that ended it."""
    given: dict[str, Any] = {}
    for option in options:
        name, _, value = option.partition("=")
        given[name] = (value,) if value else True
    out, said = bytearray(), []
    kafka_dump, error = KafkaDump(KafkaOptions(KafkaArguments(**given)), out.extend, said.append), None
    try:
        kafka_dump.file(path)
    except KlogError as ended_it:
        error = ended_it
    assert said == []
    first, *lines = out.decode().splitlines()
    assert first == f"Dumping {path}"
    return lines, list(kafka_dump.reports.lines()), error


def check(case: Case, folder: pathlib.Path, suffix: str) -> None:
    path = lay_out(case, folder, suffix)
    lines, reports, error = dump(path, case.options)
    assert lines == [line.format(path) for line in case.lines]
    assert error is None or error.path == path
    assert (error and error.kafka_class) == case.dies
    if case.dies is None:
        assert reports == [line.format(path) for line in case.reports]


@pytest.mark.parametrize("name", OFFSET_CASES)
def test_an_offset_index(tmp_path: pathlib.Path, name: str) -> None:
    check(OFFSET_CASES[name], tmp_path, ".index")


@pytest.mark.parametrize("name", TIME_CASES)
def test_a_time_index(tmp_path: pathlib.Path, name: str) -> None:
    check(TIME_CASES[name], tmp_path, ".timeindex")


def test_the_rest_of_the_log_is_looked_at_from_each_entry_on(tmp_path: pathlib.Path) -> None:
    """Damage behind the first entry's position ends the dump at the first entry, whichever the entry is about."""
    damaged = bytearray(LOG)
    damaged[167 + 8 : 167 + 12] = (5).to_bytes(4, "big")
    path = lay_out(Case(log=bytes(damaged)), tmp_path, ".timeindex")
    lines, _, error = dump(path, ())
    assert (lines, error and error.kafka_class) == ([], "CorruptRecordException")
    assert error is not None
    assert "the log beside it, at byte 167: record size 5" in error.reason


def test_entries_that_jump_about_are_held_against_the_log_all_the_same(tmp_path: pathlib.Path) -> None:
    """What was found sound is not walked again; wherever an index sends next, forth, back or into a batch."""
    index = "00000001 00000000  00000015 000000a7  00000017 00000051"  # entries two and three have changed places
    entries = "00000174876e83e9 00000015  00000174876e87d1 00000017  00000174876e8005 00000001" * 2
    path = lay_out(Case(index=index, time_index=entries), tmp_path, ".timeindex")
    lines, reports, error = dump(path, ())
    assert error is None
    assert len(lines) == 6
    assert reports[:1] == [f"Found out of order timestamp in :{path}"]
    assert f"The following indexed offsets are not found in :{path}" in reports
    assert reports.count("Indexed offset: 21, found log offset: 23") == 2
