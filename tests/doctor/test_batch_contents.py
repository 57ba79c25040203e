"""Known batches are asked and added in turn, as `measure` does: neither answers nor work depend on that."""

from __future__ import annotations

import gzip
import random

import pytest
from loading import segment

from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.doctor import batch_contents
from klogtool.doctor.batch_contents import KnownBatches
from klogtool.doctor.readable import Readable, walk_each, walk_readable
from klogtool.format.message import build_message

COUNT = 300


def known(monkeypatch: pytest.MonkeyPatch, order: list[int], *, ask: bool) -> tuple[list[list[int]], int]:
    """What is known of each offset in the end, and how many batches were looked at to keep them in order."""
    looked_at, accumulate = 0, batch_contents.accumulate

    def counting(values, function):  # type: ignore[no-untyped-def]
        nonlocal looked_at
        values = list(values)
        looked_at += len(values)
        return accumulate(values, function)

    monkeypatch.setattr(batch_contents, "accumulate", counting)
    content = segment(0, COUNT)
    with ContentFile("", (content,)) as file:
        (row,) = walk_readable(file, 0, file.size)
        batches: list[Readable] = list(walk_each(file, row))
        found = KnownBatches()
        for n in order:
            found.add(file, batches[n])
            if ask:
                list(found.walk_records(batches[n].first_offset, batches[n].last_offset))
        told = [
            [record.offset for record in found.walk_records(each.first_offset, each.last_offset)] for each in batches
        ]
    monkeypatch.undo()
    return told, looked_at


def test_asking_in_between_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    order = list(range(COUNT))
    random.Random(7).shuffle(order)
    order += order[:20]
    asked, _ = known(monkeypatch, order, ask=True)
    assert asked == known(monkeypatch, order, ask=False)[0]
    assert asked == known(monkeypatch, sorted(order), ask=True)[0]


def test_work_grows_with_the_batches_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    assert known(monkeypatch, list(range(COUNT)), ask=True)[1] <= 3 * COUNT


@pytest.mark.parametrize("opened", [False, True])
def test_the_same_message_twice_in_a_wrapper_is_one_record(opened: bool) -> None:
    """A judge's broker had 8 records of 16 that were claimed, and the claim went beyond the wrapper."""
    inner = [build_message(n, b"key", b"value", magic=1, timestamp=1000) for n in range(4)]
    wrapper = build_message(13, None, gzip.compress(b"".join(inner * 2)), magic=1, timestamp=1000, attributes=1)
    with ContentFile("", (wrapper,)) as file:
        (part,) = walk_readable(file, 0, file.size, opened=opened)
    assert (part.first_offset, part.last_offset, part.records) == (10, 13, 4)
