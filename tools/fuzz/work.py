"""The log at work: what is looked up in a damaged log, read of it, and changed as a broker would change it."""

from __future__ import annotations

import json
import os

from asking import (
    NOW_MS,
    OFFSETS,
    Place,
    Question,
    Say,
    ask_for_plans,
    must,
    refusals,
    some_arguments,
    some_circumstances,
    some_partition,
    the_other_reader,
)
from choices import Choices
from damaged import EXTREMES, damaged
from trees import HERE

from klogtool.broker.content import content_size
from klogtool.broker.unified_log.loaded_partition import FetchedBytes, LoadedPartition, load
from klogtool.broker.unified_log.lookup import WORDS
from klogtool.broker.unified_log.reading import Isolation
from klogtool.json_rows import row_line
from klogtool.plans.compact import CompactQuestion
from klogtool.plans.question import read_question
from klogtool.plans.why_not_compacted import walk_standings
from klogtool.render.compact import standing_text
from klogtool.render.lookup import epoch_row, epoch_text, offset_row, offset_text, timestamp_row, timestamp_text
from klogtool.render.read import fetched_row, fetched_text, walk_json_records, walk_text_records
from klogtool.render.txns import state_row, state_text, transaction_row, transaction_text
from klogtool.render.words import in_words

ASKED_OFFSETS = (0, 1, 7, 20, 30, 31, 38, 47, 60, 62, 63, *EXTREMES)
TIMES = (*WORDS, *WORDS, 0, 1_700_000_000_000, 1_700_000_000_037, NOW_MS, *EXTREMES)
SIZES = (0, 1, 17, 61, 100, 300, 5000, 2**31 - 1, -1)
ORIGINS = ("client", "client", "coordinator", "replication", "raft_leader", "CLIENT", "nobody")
WORDS_OF_RECORDS = (0, 1, -1, 2**63 - 1, 2**63, 1.5, "", "k", "\udcff", None, True, [], {}, [["h", "x"]], ["h"])
CLEANING = (
    {"cleanup.policy": "compact"},
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "1"},
    {"cleanup.policy": "compact,delete", "retention.ms": "1", "segment.bytes": "1200"},
    {"cleanup.policy": "compact", "log.cleaner.dedupe.buffer.size": "120", "max.message.bytes": "100"},
    {"cleanup.policy": "compact", "min.compaction.lag.ms": "9223372036854775807"},
)
KEEPING = (
    {"retention.ms": "1"},
    {"retention.bytes": "0"},
    {"retention.bytes": "1", "retention.ms": "-1"},
    {"retention.ms": "9223372036854775807", "retention.bytes": "-1"},
    {"cleanup.policy": "compact", "retention.ms": "1"},
)


# ---------------------------------------------------------------- looked up and read


def ask_loaded(rng: Choices, place: Place, say: Say) -> None:
    """Several questions to one partition."""
    name, circumstances = some_partition(rng, place), some_circumstances(rng)
    say(f"load {name} {circumstances}")
    with refusals(place, say):
        loaded = load(place.path(name), circumstances, 1)
        with the_other_reader():
            other = load(place.path(name), circumstances, 1)
        for _ in range(rng.choice((1, 3, 6))):
            with refusals(place, say):
                rng.choice(OF_A_LOADED)(rng, loaded, other, say)


def look_up_offset(rng: Choices, loaded: LoadedPartition, other: LoadedPartition, say: Say) -> None:
    offset, explain = rng.choice((loaded.log_start_offset, loaded.log_end_offset, *ASKED_OFFSETS)), rng.chance(2)
    say(f"lookup --offset {offset} explain={explain}")
    found = loaded.lookup_offset(offset, explain=explain)
    must(found == other.lookup_offset(offset, explain=explain), "kernels and reference look up the same", found)
    if not found.is_end:
        size, last_offset = found.size or 0, found.last_offset
        must(size > 0 and (found.position or 0) >= 0, "a batch has bytes", found)
        wraps = (found.base_offset or 0) > 0 > (last_offset or 0)  # as Java's long does
        begins_there = found.base_offset == offset  # then a broker does not look where it ends (FileRecords)
        ends_behind = last_offset is not None and (last_offset >= offset or wraps or begins_there)
        must(ends_behind, "the batch ends before the offset", found)
    row_line(offset_row(found, explain=explain)), offset_text(found, loaded.log_end_offset)


def look_up_time(rng: Choices, loaded: LoadedPartition, other: LoadedPartition, say: Say) -> None:
    asked, explain = rng.choice(TIMES), rng.chance(2)
    say(f"lookup --timestamp {asked}")
    found, mark = loaded.lookup_timestamp(asked), loaded.high_watermark
    must(found == other.lookup_timestamp(asked), "kernels and reference look up the same", found)
    if found.found is not None and isinstance(asked, int) and asked >= 0:
        must(found.found.timestamp >= asked, "no record before the time", found)
    row_line(timestamp_row(asked, found, mark, explain=explain, doubts=()))
    timestamp_text(asked, found, mark, explain=explain)


def look_up_epoch(rng: Choices, loaded: LoadedPartition, other: LoadedPartition, say: Say) -> None:
    epoch = rng.choice((0, 1, 2, 5, *EXTREMES))
    say(f"lookup --leader-epoch {epoch}")
    found = loaded.end_offset_for_epoch(epoch)
    must(found == other.end_offset_for_epoch(epoch), "kernels and reference look up the same", found)
    row_line(epoch_row(found)), epoch_text(found)


def read(rng: Choices, loaded: LoadedPartition, other: LoadedPartition, say: Say) -> None:
    offset, most = rng.choice((loaded.log_start_offset, *ASKED_OFFSETS)), rng.choice(SIZES)
    least, isolation = rng.chance(2), rng.choice(list(Isolation))
    say(f"read --offset {offset} --max-bytes {most} min_one_message={least} {isolation}")
    found = loaded.read(offset, most, min_one_message=least, isolation=isolation)
    fetched = found.fetched
    same = other.read(offset, most, min_one_message=least, isolation=isolation).fetched
    must(fetched == same, "kernels and reference read the same", (fetched, same))
    one = fetched.first_batch_size or 0
    must(0 <= fetched.size <= max(most, one if least else 0, 0), "no more than was asked for", fetched)
    must(content_size(found.content) == fetched.size == len(found.data()), "the bytes are there", fetched)
    row_line(fetched_row(found, isolation)), fetched_text(found, isolation, with_sha256=True)
    read_records(rng, found)


def read_records(rng: Choices, found: FetchedBytes) -> None:
    committed_only = rng.chance(2) and found.fetched.aborted is not None
    for record in found.records(committed_only=committed_only):
        must(record.offset >= found.offset, "no record before the offset", record.offset)
    for line in b"".join(walk_json_records(found, committed_only=committed_only)).splitlines():
        must(isinstance(json.loads(line), dict), "a line is an object", line)
    list(walk_text_records(found, committed_only=committed_only))


def list_transactions(rng: Choices, loaded: LoadedPartition, other: LoadedPartition, say: Say) -> None:
    say("txns")
    state = loaded.transaction_state()
    row_line(state_row(state)), state_text(state)
    for txn in loaded.transactions():
        row_line(transaction_row(txn)), transaction_text(txn)


OF_A_LOADED = (look_up_offset, look_up_time, look_up_epoch, read, read, list_transactions)


# ---------------------------------------------------------------- changed


def ask_append(rng: Choices, place: Place, say: Say) -> None:
    name = f"{HERE}/{rng.choice(('new-0', 't-7', 'new'))}" if rng.chance(8) else some_partition(rng, place)
    arguments = some_arguments(rng) | rng.choice((_batches, _requests, _requests, _records))(rng, place)
    if rng.chance(4):
        arguments["leader_epoch"] = rng.choice(EXTREMES) % 2**31
    if name not in place.partitions() and rng.chance(2):
        arguments |= {"create": True, "new_topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
    ask_for_plans(rng, place, say, "append", name, arguments)


def _batches(rng: Choices, place: Place) -> dict[str, object]:
    folders = [folder for top in ("here", "there") for folder in place.partitions(top)] or [HERE]
    files = [file for file in place.files(rng.choice(folders)) if file.endswith(".log")] or [f"{HERE}/no.log"]
    return {"batches": [place.path(rng.choice(files)) for _ in range(rng.choice((1, 1, 2)))]}


def _requests(rng: Choices, place: Place) -> dict[str, object]:
    """Lines out of a log's bytes, damaged, or of chance."""
    files = [place.path(path) for folder in place.partitions("there") for path in place.files(folder)]
    logs = [path for path in files if path.endswith(".log")]
    lines = []
    for _ in range(rng.choice((1, 1, 3))):
        request: dict[str, object] = {"as": rng.choice(("leader", "leader", "follower", "who"))}
        if logs:
            request["hex"] = _bytes_of(rng, rng.choice(logs)).hex()
        for field in ("leader_epoch", "now_ms", "record_version", "transaction_version"):
            if rng.chance(4):
                request[field] = rng.choice((0, 1, 2, 2, *EXTREMES, "x", None))
        if rng.chance(2):
            request["origin"] = rng.choice(ORIGINS)
        line = json.dumps(request)
        lines.append(line[: rng.randrange(len(line))] if rng.chance(16) else line)
    return {"requests_text": "\n".join(lines)}


def _bytes_of(rng: Choices, path: str) -> bytes:
    """The first batches of a file, or any bytes of it."""
    data = b""
    if os.path.isfile(path):
        with open(path, "rb") as file:
            data = file.read(1 << 15)
    if len(data) < 17 or rng.chance(8):
        return data
    if not rng.chance(4):
        size = 12 + int.from_bytes(data[8:12], "big") % (1 << 20)
        data = data[: size if rng.chance(2) else 3 * size]
    if rng.chance(2):
        data = int.to_bytes(rng.choice((0, 1, 47, 62, 110, *EXTREMES)) % 2**64, 8, "big") + data[8:]
    return damaged(rng, data, healed=not rng.chance(4)) if rng.chance(2) else data


def _records(rng: Choices, place: Place) -> dict[str, object]:
    lines = []
    for _ in range(rng.choice((1, 2, 5, 40))):
        row: dict[str, object] = {"type": "record", "key": "k", "value": "v", "timestamp": 1_700_000_000_000}
        if rng.chance(4):
            fields = ("type", "key", "value", "timestamp", "headers", "key_base64", "control", "producer_id", "offset")
            row[rng.choice(fields)] = rng.choice(WORDS_OF_RECORDS)
        lines.append(json.dumps(row))
    if rng.chance(8):
        lines.insert(rng.randrange(len(lines)), rng.choice(("{", "[]", "null", '"x"', "9" * 5000, "\0", "[" * 5000)))
    return {
        "records_text": "\n".join(lines),
        "codec": rng.choice((None, "gzip", "snappy", "lz4", "zstd", "none", "x")),
        "magic": rng.choice((None, None, 0, 1, 2)),
        "batch_bytes": rng.choice((None, 1, 100)),
        "batch_records": rng.choice((None, 1, 3)),
    }


def ask_truncate(rng: Choices, place: Place, say: Say) -> None:
    arguments = some_arguments(rng) | {"purge": rng.chance(4)}
    if rng.chance(2):
        arguments["start_at"] = rng.choice(ASKED_OFFSETS)
        arguments["log_start_offset_after"] = rng.choice(OFFSETS)
    else:
        arguments["to"] = rng.choice(ASKED_OFFSETS)
    ask_for_plans(rng, place, say, "truncate", some_partition(rng, place), arguments)


def ask_roll(rng: Choices, place: Place, say: Say) -> None:
    arguments = some_arguments(rng) | {"purge": rng.chance(4), "force": rng.chance(2)}
    for name in ("bytes", "timestamp", "offset"):
        if rng.chance(3):
            arguments[f"incoming_{name}"] = rng.choice(EXTREMES)
    ask_for_plans(rng, place, say, "roll", some_partition(rng, place), arguments)


def ask_retain(rng: Choices, place: Place, say: Say) -> None:
    arguments = some_arguments(rng) | {"purge": rng.chance(4)}
    arguments["config"] = {**(arguments.get("config") or {}), **rng.choice(KEEPING)}
    name = HERE if rng.chance(3) else some_partition(rng, place)
    ask_for_plans(rng, place, say, "retain", name, arguments)


def ask_delete_records(rng: Choices, place: Place, say: Say) -> None:
    arguments = some_arguments(rng) | {"purge": rng.chance(4), "before": rng.choice((-1, *ASKED_OFFSETS))}
    ask_for_plans(rng, place, say, "delete-records", some_partition(rng, place), arguments)


def ask_compact(rng: Choices, place: Place, say: Say) -> None:
    arguments = some_arguments(rng) | {"purge": rng.chance(4), "force": not rng.chance(3), "keep_magic": rng.chance(4)}
    arguments["config"] = {**(arguments.get("config") or {}), **rng.choice(CLEANING)}
    if rng.chance(2):
        arguments["first_dirty_offset"] = rng.choice(OFFSETS)
    if rng.chance(4):
        arguments["passes_at_ms"] = [rng.choice((0, NOW_MS, *EXTREMES)) for _ in range(rng.choice((1, 2, 3)))]
    name = HERE if rng.chance(4) else some_partition(rng, place)
    ask_for_plans(rng, place, say, "compact", name, arguments)


def ask_why_not_compacted(rng: Choices, place: Place, say: Say) -> None:
    arguments = some_arguments(rng)
    arguments["config"] = {**(arguments.get("config") or {}), **rng.choice(CLEANING)}
    name = HERE if rng.chance(2) else some_partition(rng, place)
    say(f"compact --why-not {name}")
    with refusals(place, say):
        for standing in walk_standings(
            [place.path(name)], read_question(CompactQuestion, {k: v for k, v in arguments.items() if v is not None})
        ):
            row_line(in_words(standing)), standing_text(standing)


WORK: tuple[Question, ...] = (
    *(ask_loaded,) * 4,
    *(ask_append,) * 4,
    *(ask_truncate,) * 2,
    *(ask_retain,) * 2,
    *(ask_compact,) * 3,
    ask_roll,
    ask_delete_records,
    ask_why_not_compacted,
)
