"""TransactionIndex: how Kafka's own goes about its file."""

from __future__ import annotations

import pathlib

import pytest

from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.index_files import TransactionIndex
from klogtool.errors import Corrupt
from klogtool.format.indexes import AbortedTxn, build_txn_index

NAME, OTHER = "00000000000000000000.txnindex", "00000000000000000000.txnindex.swap"
FIRST = AbortedTxn(0, producer_id=1, first_offset=5, last_offset=9, last_stable_offset=10)
SECOND = AbortedTxn(0, producer_id=2, first_offset=11, last_offset=12, last_stable_offset=13)


def draft_with(tmp_path: pathlib.Path, *entries: AbortedTxn) -> Draft:
    if entries:
        (tmp_path / NAME).write_bytes(build_txn_index(entries))
    return Draft.of(str(tmp_path))


def test_the_file_comes_to_be_with_the_first_entry(tmp_path: pathlib.Path) -> None:
    draft = draft_with(tmp_path)
    index = TransactionIndex(draft, NAME, 0)
    index.reset()
    assert NAME not in draft
    index.append(FIRST)
    index.write_back()
    assert draft.read(NAME) == build_txn_index([FIRST])


def test_entries_go_behind_those_that_are_there_and_reset_takes_them_away(tmp_path: pathlib.Path) -> None:
    index = TransactionIndex(draft_with(tmp_path, FIRST), NAME, 0)
    index.append(SECOND)
    assert index.parse() == [FIRST, SECOND]
    index.reset()
    index.append(FIRST)
    assert index.parse() == [FIRST]


def test_markers_ascend(tmp_path: pathlib.Path) -> None:
    index = TransactionIndex(draft_with(tmp_path), NAME, 0)
    index.append(SECOND)
    with pytest.raises(Corrupt, match="must increase sequentially"):
        index.append(SECOND)


def test_one_that_never_had_a_file_does_not_see_what_already_has_its_new_name(tmp_path: pathlib.Path) -> None:
    """As where a split makes a segment anew: its recovery empties no file, and puts the entry behind the old one."""
    draft = draft_with(tmp_path, FIRST)
    index = TransactionIndex(draft, OTHER, 0)
    index.take_name(NAME)
    index.reset()
    assert index.parse() == []
    index.append(FIRST)
    index.write_back()
    assert draft.read(NAME) == build_txn_index([FIRST, FIRST])
