"""Calls of append to small partition dirs, and what comes of them."""

from __future__ import annotations

import json
import pathlib
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from deciding import decided
from raw_batches import build_batch

from klogtool.format.batch import CRC_COVERS_FROM, Record
from klogtool.format.checksums import crc32c
from klogtool.plans.plan import Plan

NOW_MS = 1_700_000_000_000
Files = dict[str, bytes]


def records(count: int = 1, *, at_ms: int = NOW_MS, key: bytes | None = b"k", first: int = 0) -> list[Record]:
    """From offset `first` on, a millisecond apart."""
    return [Record(first + n, at_ms + n, key, b"value") for n in range(count)]


def batch(count: int = 1, **header: Any) -> bytes:
    """As a client sends it."""
    return build_batch(records(count), **header)


def replica(offset: int, count: int = 1, *, epoch: int = 1, **header: Any) -> bytes:
    """As a leader has it."""
    return build_batch(records(count, first=offset), partition_leader_epoch=epoch, **header)


def patched(data: bytes, position: int, new: bytes) -> bytes:
    """Other bytes under the checksum of a batch, which is made right."""
    changed = data[:position] + new + data[position + len(new) :]
    return changed[:17] + struct.pack(">I", crc32c(changed[CRC_COVERS_FROM:])) + changed[CRC_COVERS_FROM:]


def mended(message: bytes) -> bytes:
    """A message with the checksum that it should have."""
    return message[:12] + struct.pack(">I", zlib.crc32(message[16:])) + message[16:]


def leader(data: bytes, **more: Any) -> dict[str, Any]:
    """A call."""
    return {"as": "leader", "leader_epoch": 1, "hex": data.hex(), **more}


def follower(data: bytes, **more: Any) -> dict[str, Any]:
    """A call."""
    return {"as": "follower", "leader_epoch": 1, "hex": data.hex(), **more}


def plan_of(
    folder: pathlib.Path, *calls: Mapping[str, Any], jobs: int = 1, as_of: str = "4.3.1", **config: Any
) -> Plan:
    """What they come to. jobs: threads; as_of: the release; config: settings, underscores for dots."""
    folder.mkdir(exist_ok=True)
    settings = {name.replace("_", "."): str(value) for name, value in config.items()}
    text = "".join(json.dumps(call) + "\n" for call in calls)
    asked = {"now_ms": NOW_MS, "config": settings, "requests_text": text, "jobs": jobs, "kafka": as_of}
    (plan,) = decided("append", str(folder), asked)
    return plan


def appended(folder: pathlib.Path, *calls: Mapping[str, Any], **config: Any) -> list[dict[str, Any]]:
    """The rows of the answer."""
    return list(plan_of(folder, *calls, **config).answer["appends"])


def refusal(folder: pathlib.Path, call: Mapping[str, Any], **config: Any) -> str | None:
    """The class of exception that a single call is refused with, or None."""
    (row,) = appended(folder, call, **config)
    return row["error"]["class"] if "error" in row else None
