"""Which offsets the records of a log have: what a swap, a cleaning or a gap is judged by."""

from __future__ import annotations

import pathlib

import pytest
from kafka.layout import GZIP, NONE, Message, wrapped

from klogtool.broker.content import FileRange
from klogtool.verify.swaps import offsets_in_log


@pytest.mark.parametrize("codec", [NONE, GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_has_all_offsets_of_its_messages(tmp_path: pathlib.Path, magic: int, codec: int) -> None:
    """A judge's broker served offsets 48 to 52 of a wrapper, of which doctor called 49 and 50 missing."""
    offsets = [48, 49, 51, 52]  # a cleaning leaves gaps
    messages = [Message(offset, magic, 0, 1000 + offset, b"k", b"v") for offset in offsets]
    log = tmp_path / f"{48:020}.log"
    log.write_bytes(wrapped(messages, magic, codec))
    found = offsets_in_log((FileRange(str(log), 0, log.stat().st_size),))
    assert (list(found.all.ranges), list(found.data.ranges)) == ([(48, 49), (51, 52)], [(48, 49), (51, 52)])
