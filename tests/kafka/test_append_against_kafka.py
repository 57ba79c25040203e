"""What Kafka makes of appends, right and wrong in every way, and what klogtool makes of them: the same, byte for byte.

A log of logs_at_work.py, and a row of calls to it: as a leader's, from clients and coordinators, or as a
follower's; all magics and codecs, producers that count right or wrong, transactions, header fields and records changed
under a right checksum, tails. Where Kafka has compressed anew, records are compared. KLOGTOOL_APPEND_COUNT: how many
rows (default 60). For more: `python -m tests.kafka.test_append_against_kafka --count N --seed S [--kernel]`; `--case
SEED.VARIANT` asks again.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deciding import decided

from klogtool.broker.appending import analysis as append_analysis
from klogtool.broker.appending import appender as appending
from klogtool.broker.appending.analysis import KERNEL_FROM_BYTES
from klogtool.broker.content import read_content
from klogtool.errors import KlogError
from klogtool.format.checksums import crc32c
from klogtool.log.entries import RecordBatch, walk_entries
from klogtool.plans.plan import Write

from .comparing import asked, differences, refusal, result_of, simple_name, state_differences
from .folders import Files, bases_of, files_of, put
from .live import Question, Tally, agreed, parser_for, report
from .logs_at_work import arguments_of, walk_logs, without_room
from .random_logs import Case, Makers

pytestmark = [pytest.mark.kafka, pytest.mark.shared]

COUNT = int(os.environ.get("KLOGTOOL_APPEND_COUNT", "60"))
TOLD = ("first_offset", "last_offset", "max_timestamp", "log_append_time", "valid_bytes", "rolled", "log_end_offset")
CODECS = {0: ("none", "gzip", "snappy", "lz4"), 1: ("none", "gzip", "snappy", "lz4")}
ALL_CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")
HEADER = {  # position and struct of what lies under the checksum of a batch
    "attributes": (21, ">h", (0, 1, 5, 6, 7, 8, 0x10, 0x18, 0x20, 0x30, 0x40, 0x80, 4, 2, 3)),
    "last_offset_delta": (23, ">i", (0, 1, 2, -1, 5, 2**31 - 1, -(2**31))),
    "base_timestamp": (27, ">q", (0, -1, -2, 2**62, 1_700_000_000_000)),
    "max_timestamp": (35, ">q", (0, -1, -2, 2**62, 1_700_000_000_000)),
    "producer_id": (43, ">q", (-1, 0, 9, 11, -5)),
    "producer_epoch": (51, ">h", (-1, 0, 1, 2, 5, 32767)),
    "base_sequence": (53, ">i", (-1, 0, 1, 3, 2**31 - 1)),
    "records_count": (57, ">i", (0, 1, 2, 3, -1, 2**31 - 1)),
}
# Kafka leaves the bytes of a set that an index does not take in the log, and knows nothing of them.
TORN = ("Attempt to append", "Invalid max index size", "IndexOffsetOverflow", "BufferOverflow", "newPosition > limit")
# What Kafka makes of a stream whose end is wrong, when its beginning is, too; and errors that are none of a log.
FORGIVEN = (("KafkaException", "InvalidRecordException"), ("KafkaException", "CorruptRecordException"))
NO_ANSWERS = ("OutOfMemoryError", "SnappyError")


def mended(batch: bytes) -> bytes:
    """The batch, or message, with the checksum that it should have."""
    if len(batch) < 26:
        return batch
    if batch[16] == 2:
        return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]
    return batch[:12] + struct.pack(">I", zlib.crc32(batch[16:])) + batch[16:]


class Calls:
    """Draws a row of calls. end: where the log ends, about."""

    def __init__(self, oracle: Any, rng: random.Random, when: int, end: int) -> None:
        self.oracle, self.rng, self.when, self.end = oracle, rng, when, end
        self.epoch = rng.choice((0, 5, 40))
        self.sequences: dict[int, tuple[int, int]] = {}
        self.sent: list[dict[str, Any]] = []

    def row(self, most: int) -> list[dict[str, Any]]:
        way = self.rng.choice(("leader", "leader", "follower", "both"))
        for number in range(most):
            is_leader = self.rng.random() < 0.6 if way == "both" else way == "leader"
            call = self._leader() if is_leader else self._follower()
            if self.rng.random() < 0.9:
                call["now_ms"] = self.when + number * self.rng.choice((0, 1000, 1000, 10**6))
            self.sent.append(call)
        return self.sent

    # What clients, coordinators and Kafka's own Raft send to a leader.

    def _leader(self) -> dict[str, Any]:
        rng = self.rng
        if self.sent and rng.random() < 0.08:
            return dict(rng.choice(self.sent))
        if rng.random() < 0.03:
            self.epoch += rng.choice((1, 2, -1))
        call: dict[str, Any] = {"as": "leader", "leader_epoch": self.epoch}
        draw = rng.random()
        if draw < 0.1:
            call |= {"origin": "coordinator", "hex": self._marker().hex()}
            if rng.random() < 0.9:
                call["transaction_version"] = rng.choice((0, 1, 2, 2))
        elif draw < 0.14:
            batch = self._batch(base_offset=self.end, leader_epoch=rng.choice((self.epoch, self.epoch, 3)))
            call |= {"origin": "raft_leader", "hex": batch.hex()}
        else:
            if draw < 0.2:
                call["origin"] = rng.choice(("coordinator", "client", "replication"))
            if rng.random() < 0.12:
                call["record_version"] = rng.choice((0, 1, 2))
            call["hex"] = self._spoilt(self._client_set()).hex()
        return call

    def _client_set(self) -> bytes:
        rng = self.rng
        draw = rng.random()
        if draw < 0.7:
            return self._batch()
        if draw < 0.85:
            magic = rng.choice((0, 1))
            codec = rng.choice(CODECS[magic])
            return b"".join(self._batch(magic=magic, codec=codec) for _ in range(rng.choice((1, 1, 2))))
        if draw < 0.9:
            return b"".join(self._batch(magic=rng.choice((0, 1, 2))) for _ in range(2))
        if draw < 0.94:
            return self._batch(base_offset=rng.choice((1, 7, self.end)))
        if draw < 0.97:
            return bytes(
                self._build(empty=True, last_offset=rng.choice((0, 3)), max_timestamp=self.when, **self._producer(1))
            )
        return b""

    def _producer(self, count: int) -> dict[str, Any]:
        """None mostly; one that counts on, or wrong."""
        rng = self.rng
        if rng.random() < 0.45:
            return {}
        producer_id = rng.choice((9, 11, 12, 1000))
        epoch, sequence = self.sequences.get(producer_id, (0, rng.choice((0, 0, 5, 2**31 - 2))))
        draw = rng.random()
        if draw < 0.1:
            sequence += rng.choice((1, -1, 10))
        elif draw < 0.2:
            epoch += rng.choice((1, -1, 2))
            sequence = rng.choice((0, 0, 4))
        sequence, epoch = max(0, sequence) % 2**31, max(0, epoch)
        if rng.random() < 0.9:
            self.sequences[producer_id] = epoch, (sequence + count) % 2**31
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        return {**fields, "transactional": True} if producer_id in (11, 12) and rng.random() < 0.8 else fields

    def _batch(self, **more: Any) -> bytes:
        rng = self.rng
        magic = more.pop("magic", 2)
        count = rng.choice((1, 1, 2, 3, 6, 40))
        fields: dict[str, Any] = {"magic": magic, "codec": rng.choice(CODECS.get(magic, ALL_CODECS))}
        if magic == 2:
            fields |= self._producer(count)
        if magic > 0 and rng.random() < 0.06:
            fields |= {"timestamp_type": "append", "log_append_time": self.when}
        if rng.random() < 0.03:
            fields["last_offset"] = more.get("base_offset", 0) + count + rng.choice((-1, 0, 4))
        records, offset = [], more.get("base_offset", 0)
        holes = rng.random() < 0.05
        for _ in range(count):
            offset += rng.choice((0, 1)) if holes else 0
            records.append(self._record(magic, offset))
            offset += 1
        try:
            return self._build(**fields | more, records=records)
        except ValueError:  # nothing that Kafka builds
            return self._build(magic=magic, records=[{"key": "k", "value": "v", "timestamp": self.when}])

    def _record(self, magic: int, offset: int) -> dict[str, Any]:
        rng = self.rng
        times = (0, 1, 5, -5000, -(10**8) - 5, -(10**8), 3_600_000, 3_700_000, 10**10)
        timestamp = (
            -1 if magic == 0 or rng.random() < 0.03 else self.when + (0 if rng.random() < 0.9 else rng.choice(times))
        )
        record: dict[str, Any] = {
            "offset": offset,
            "key": None if rng.random() < 0.05 else f"k{rng.randrange(9)}",
            "value": None if rng.random() < 0.1 else "value " * rng.choice((0, 1, 3, 3, 60)),
            "timestamp": timestamp,
        }
        if magic == 2 and rng.random() < 0.1:
            record["headers"] = [["h", "x"], ["n", None]][: rng.randint(1, 2)]
        return record

    def _marker(self) -> bytes:
        rng = self.rng
        producer_id = rng.choice((11, 11, 12, 9, 77))
        epoch, _ = self.sequences.get(producer_id, (0, 0))
        epoch = max(0, epoch + rng.choice((0, 0, 1, -1)))
        if rng.random() < 0.8:
            self.sequences[producer_id] = epoch, 0
        return self._build(
            marker=rng.choice(("commit", "abort")),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=self.when,
            coordinator_epoch=rng.choice((0, 0, 1, 2)),
        )

    def _build(self, **batch: Any) -> bytes:
        (built,) = self.oracle.build([batch])
        return bytes(built)

    # What goes wrong on the way.

    def _spoilt(self, data: bytes) -> bytes:
        rng = self.rng
        draw = rng.random()
        if draw < 0.72 or not data:
            return data
        if draw < 0.76:
            return data + rng.choice((b"\1\2\3", b"\0" * 12, b"\0" * 30, data[:40], data[:11], data[: len(data) // 2]))
        if draw < 0.79:
            return data[: rng.randrange(len(data))]
        if draw < 0.82:
            at = rng.randrange(len(data))
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        if draw < 0.92 and data[16] == 2 and len(data) >= 61:
            position, form, values = HEADER[rng.choice(list(HEADER))]
            changed = bytearray(data)
            struct.pack_into(form, changed, position, rng.choice(values))
            return mended(bytes(changed))
        first = 61 if data[16] == 2 else 17
        if len(data) <= first:
            return data
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 3))):
            changed[rng.randrange(first, len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        return mended(bytes(changed))

    # What a follower has from its leader.

    def _follower(self) -> dict[str, Any]:
        rng = self.rng
        sets, large = [], rng.random() < 0.06
        offset = self.end + rng.choice((0, 0, 0, 0, 1, 10, 500, -1, -3, 2**31 + 5 if rng.random() < 0.1 else 0))
        count = rng.choice((1, 1, 2, 3, 8)) if not large else 30
        for _ in range(count):
            epoch = self.epoch + (rng.choice((0, 1, -2, 60)) if rng.random() < 0.1 else 0)
            magic = 2 if rng.random() < 0.85 else rng.choice((0, 1))
            data, last = self._replica(max(0, offset), max(-1, epoch), magic)
            sets.append(data)
            offset = last + 1 + rng.choice((0, 0, 0, 0, 3)) + (rng.choice((0, -4)) if rng.random() < 0.03 else 0)
        whole = b"".join(sets)
        if large:
            whole = self._padded(whole, offset)
        if rng.random() < 0.85:
            self.end = max(self.end, offset)
        return {"as": "follower", "leader_epoch": self.epoch + 1, "hex": self._spoilt(whole).hex()}

    def _replica(self, offset: int, epoch: int, magic: int) -> tuple[bytes, int]:
        rng = self.rng
        if magic == 2 and rng.random() < 0.25:
            fields = {"base_offset": offset, "leader_epoch": epoch, "coordinator_epoch": rng.choice((0, 1))}
            producer_id = rng.choice((11, 12, 9))
            epoch_of, _ = self.sequences.get(producer_id, (0, 0))
            fields |= {"producer_id": producer_id, "producer_epoch": epoch_of, "timestamp": self.when}
            return self._build(marker=rng.choice(("commit", "abort")), **fields), offset
        data = self._batch(base_offset=offset, leader_epoch=epoch if magic == 2 else -1, magic=magic)
        delta = struct.unpack_from(">i", data, 23)[0] if data[16] == 2 else 0
        return data, struct.unpack_from(">q", data)[0] + delta

    def _padded(self, whole: bytes, offset: int) -> bytes:
        """So large that the kernel takes it."""
        value = "x" * 9000
        while len(whole) < KERNEL_FROM_BYTES + 100:
            record = {"key": "k", "value": value, "timestamp": self.when}
            whole += self._build(base_offset=offset, leader_epoch=self.epoch, records=[record])
            offset += 1
        self.end = offset
        return whole


def draw_config(case: Case, rng: random.Random) -> None:
    config = case.args["config"]
    for name, values in {
        "max.message.bytes": ("2000", "2000", "1048588", "300"),
        "segment.bytes": ("1500", "1500", "5000", "5000", "400000"),
        "message.timestamp.type": ("CreateTime", "CreateTime", "LogAppendTime"),
        "compression.type": ("producer", "producer", "uncompressed", "gzip", "lz4", "zstd", "snappy"),
        "cleanup.policy": ("delete", "delete", "compact", "compact,delete"),
        "message.timestamp.before.max.ms": ("9223372036854775807", "100000000", "5"),
        "message.timestamp.after.max.ms": ("3600000", "9223372036854775807", "0"),
        "flush.messages": ("1", "9223372036854775807", "3"),
        "segment.ms": ("604800000", "604800000", "3000", "1"),
    }.items():
        if rng.random() < 0.6:
            config[name] = rng.choice(values)
    if rng.random() < 0.15:
        case.args["broker"] = {"transaction.partition.verification.enable": True}


def check_append(oracle: Any, case: Case, tally: Tally) -> Iterator[str]:
    rng = case.rng
    draw_config(case, rng)
    end = max(bases_of(files_of(case.dir)), default=0)
    calls = Calls(oracle, rng, case.args["at_ms"], end + rng.randrange(40)).row(rng.choice((1, 4, 12, 25)))
    answer, after = asked(oracle, "append", case, appends=calls)
    arguments = arguments_of(case, requests_text="".join(f"{json.dumps(call)}\n" for call in calls))
    for name, value in case.args.get("broker", {}).items():
        arguments["config"][name] = str(value).lower()
    if any(word in str(row.get("error")) for row in answer.get("appends", ()) for word in TORN):
        tally["torn by Kafka"] += 1
        return
    try:
        (plan,) = decided("append", str(case.dir), arguments)
    except KlogError as error:
        tally["refused whole"] += 1
        yield from refusal(error, answer)
        return
    if "error" in answer:
        if simple_name(answer["error"]) not in NO_ANSWERS:
            yield f"Kafka refuses: {answer['error']}"
        return
    for n, (ours, kafkas) in enumerate(zip(plan.answer["appends"], answer["appends"], strict=True)):
        tally[simple_name(kafkas["error"]) if "error" in kafkas else "done"] += 1
        yield from (f"call {n} {calls[n]}: {found}" for found in unlike(ours, kafkas))
    yield from state_differences(plan.answer, answer)
    yield from file_differences(result_of(plan), without_room(after), case.dir.parent, tally)


def unlike(ours: dict[str, Any], kafkas: dict[str, Any]) -> Iterator[str]:
    refused = (
        ours["error"]["class"] if "error" in ours else None,
        simple_name(kafkas["error"]) if "error" in kafkas else None,
    )
    if refused[0] != refused[1] and refused not in FORGIVEN:
        yield f"klogtool {ours.get('error')}, Kafka {kafkas.get('error')}"
    for name in TOLD:
        if name in kafkas and ours.get(name) != kafkas[name]:
            yield f"{name}: {ours.get(name)}, Kafka {kafkas[name]}"
    if refused[1] == "RecordValidationException" and refused[0] == refused[1]:
        indexes = [[row["batch_index"] for row in told["error"]["record_errors"]] for told in (ours, kafkas)]
        if (
            indexes[0] != indexes[1]
            or ours["error"]["invalid_class"] != kafkas["error"]["invalid_class"].split(".")[-1]
        ):
            yield f"klogtool {ours['error']}, Kafka {kafkas['error']}"


def file_differences(ours: Files, kafkas: Files, work: Path, tally: Tally) -> Iterator[str]:
    """Byte for byte; of a log that was compressed anew, batch by batch and record by record, without its indexes."""
    anew = {name[:-4] for name in set(ours) & set(kafkas) if name.endswith(".log") and ours[name] != kafkas[name]}
    for stem in sorted(anew):
        tally["compressed anew"] += 1
        told = [contents_of({f"{stem}.log": files[f"{stem}.log"]}, work) for files in (ours, kafkas)]
        if told[0] != told[1]:
            yield f"{stem}.log: {told[0]}, Kafka {told[1]}"
    skipped = {f"{stem}{kind}" for stem in anew for kind in (".log", ".index", ".timeindex")}
    yield from differences(*({n: data for n, data in files.items() if n not in skipped} for files in (ours, kafkas)))


def contents_of(files: Files, work: Path) -> list[Any]:
    folder = work / "contents"
    shutil.rmtree(folder, ignore_errors=True)
    (path,) = (put(folder, files) / name for name in files)
    told: list[Any] = []
    for entry in walk_entries(str(path)):
        fields = ("magic", "attributes", "last_offset", "max_timestamp", "producer_id", "base_sequence")
        told.append([getattr(entry, name) for name in fields])
        if isinstance(entry, RecordBatch):
            told[-1] += [entry.base_offset, entry.partition_leader_epoch, entry.base_timestamp, entry.records_count]
        try:
            told[-1] += [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in entry.records()]
        except KlogError:
            told[-1].append(bytes(entry.data))
    return told


QUESTIONS = {"append": Question(walk_logs, check_append)}


@pytest.mark.slow
@pytest.mark.parametrize("kernel_from_bytes", [KERNEL_FROM_BYTES, 1])
def test_random_calls_to_random_logs(kernel_from_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (append_analysis, appending):
        monkeypatch.setattr(module, "KERNEL_FROM_BYTES", kernel_from_bytes)
    tally = agreed(QUESTIONS["append"], COUNT // 2)
    assert tally["done"] > COUNT // 4, tally
    assert len(tally) > 5, tally


@pytest.mark.slow
@pytest.mark.parametrize("log_start_offset", [0, 7])
def test_a_partition_that_comes_to_be(tmp_path: Path, log_start_offset: int) -> None:
    """The same files as where a broker makes it, partition.metadata included."""
    topic_id, makers = "AAAAAAAAAAAAAAAAAAAAAQ", Makers()
    with makers.cases.Oracle() as oracle:
        rng = random.Random(log_start_offset)
        for n in range(6):
            calls = Calls(oracle, rng, makers.logs.T0, log_start_offset).row(8)
            asked_of = {"now_ms": makers.logs.T0, "log_start_offset": log_start_offset, "config": {}}
            folder = tmp_path / "kafka" / f"new-{n}"
            folder.parent.mkdir(exist_ok=True)
            answer = oracle.ask("append", dir=str(folder), topic_id=topic_id, appends=calls, **asked_of)
            text = "".join(f"{json.dumps(call)}\n" for call in calls)
            ours = {**asked_of, "requests_text": text, "create": True, "topic_id": topic_id}
            (plan,) = decided("append", str(tmp_path / f"new-{n}"), ours)
            for mine, kafkas in zip(plan.answer["appends"], answer["appends"], strict=True):
                assert not list(unlike(mine, kafkas)), calls
            found = {step.path: read_content(step.content) for step in plan.steps if isinstance(step, Write)}
            assert not list(file_differences(found, files_of(folder), tmp_path, Counter()))
            assert found["partition.metadata"] == (folder / "partition.metadata").read_bytes()


def main() -> int:
    parser = parser_for(__doc__, QUESTIONS, count=500)
    parser.add_argument("--kernel", action="store_true", help="every set of a follower goes by the kernel")
    given = parser.parse_args()
    if given.kernel:
        append_analysis.KERNEL_FROM_BYTES = appending.KERNEL_FROM_BYTES = 1
    return report(QUESTIONS, given)


if __name__ == "__main__":
    sys.exit(main())
