"""Records that consumers pass over because offsets go back or jump ahead: the numbers are those of a consumer 4.3.1."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from running import run_here

from klogtool.format.batch import Record, build_batch
from klogtool.format.names import FileKind, build_file_name


def batch(first: int, count: int = 3, *, last: int | None = None) -> bytes:
    records = [Record(first + n, 1000 + first + n, b"k", b"%d" % first) for n in range(count)]
    return build_batch(records, last_offset=last)


def at(made: bytes, offset: int) -> bytes:
    """The same batch with another base offset, which no checksum covers."""
    return offset.to_bytes(8, "big") + made[8:]


SOUND = [batch(first) for first in range(0, 30, 3)]
Log = Mapping[int, list[bytes]]
# The log, the records that are hidden, the ranges of their offsets.
CASES: Mapping[str, tuple[Log, int, list[list[int]]]] = {
    "sound": ({0: SOUND[:5], 15: SOUND[5:]}, 0, []),
    "a gap": ({0: SOUND[:3], 15: SOUND[5:]}, 0, []),
    "reversed": ({0: [*SOUND[:2], SOUND[3], SOUND[2], *SOUND[4:]]}, 3, [[6, 8]]),
    "reversed in a closed segment": (
        {0: [*SOUND[:2], SOUND[3], SOUND[2], SOUND[4]], 15: SOUND[5:]},
        3,
        [[6, 8]],
    ),
    # The consumer reads the end of the first segment again and again, until somebody seeks past it.
    "reversed at the end of a closed segment": (
        {0: [*SOUND[:3], SOUND[4], SOUND[3]], 15: SOUND[5:]},
        3,
        [[9, 11]],
    ),
    "an old batch at the end of a closed segment": ({0: [*SOUND[:5], SOUND[1]], 15: SOUND[5:]}, 0, []),
    "reversed at the end": ({0: SOUND[:5], 15: [*SOUND[5:8], SOUND[9], SOUND[8]]}, 3, [[24, 26]]),
    "a batch twice": ({0: [*SOUND[:3], *SOUND[2:]]}, 0, []),
    "another batch at the same offsets": ({0: [*SOUND[:3], at(SOUND[4], 6), *SOUND[3:]]}, 3, [[6, 8]]),
    "a segment twice": ({0: SOUND[:5], 9: SOUND[3:]}, 0, []),
    "an offset above the next segment": (
        {0: [*SOUND[:4], at(SOUND[4], 28)], 15: SOUND[5:]},
        15,
        [[15, 29]],
    ),
    "a last offset that no record has": ({0: [SOUND[0], batch(3, 3, last=8), *SOUND[2:]]}, 0, []),
}


def hidden(tmp_path: pathlib.Path, log: Log, *, clean: bool) -> dict[str, Any]:
    folder = tmp_path / "d/t-0"
    folder.mkdir(parents=True)
    for base, batches in log.items():
        (folder / build_file_name(FileKind.LOG, base)).write_bytes(b"".join(batches))
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            (folder / build_file_name(kind, base)).write_bytes(b"")
    (tmp_path / "d/meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    if clean:
        (tmp_path / "d/.kafka_cleanshutdown").write_text("")
    rows = map(json.loads, run_here(["doctor", "d", "--format", "json"], tmp_path).out.splitlines())
    (claim,) = [row for row in rows if row.get("type") == "claim" and row.get("about") == "partition"]
    return dict(claim["hidden"])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_what_consumers_pass_over_is_counted(tmp_path: pathlib.Path, name: str, clean: bool) -> None:
    log, records, ranges = CASES[name]
    found = hidden(tmp_path, log, clean=clean)
    assert (found["records"], found["ranges"]) == (records, ranges)
    assert found["why"] == (["order"] if records else [])


def test_a_log_that_nobody_reads_is_unknown(tmp_path: pathlib.Path) -> None:
    large = [batch(first, 300) for first in range(0, 90_000, 300)]
    found = hidden(tmp_path, {0: large, 90_000: [batch(90_000)]}, clean=True)
    assert (found["records"], found["why"]) == (None, ["not-read"])
