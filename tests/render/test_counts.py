"""Sentences that count: one thing is told in the singular, in every sentence of words.json."""

from __future__ import annotations

import re

import pytest

from klogtool.causes import Reason, sentences, words
from klogtool.plans.causes import PlanNote
from klogtool.render.words import count_text

COUNTED = r"(?:bytes|zeros|records|batches|entries|files|partitions|offsets|voters|fields|segments|lines|objects)"
# A number that the sentence is only used for if it is more than one.
ALWAYS_MANY = {("AheadCause", "SEGMENTS_DELETED")}


def test_a_number_before_a_plural_has_its_singular() -> None:
    """`{files} files` has none: `{files:file|files}` has."""
    plural = re.compile(r"\{[a-z_]+(?::,)?\} (?:more |other |leftover )?" + COUNTED)
    of_names = re.compile(r"\{(?:kinds|names|name|file|kind)\}")
    found = [
        (cause, name, sentence)
        for cause, by_name in sentences().items()
        for name, sentence in by_name.items()
        if (cause, name) not in ALWAYS_MANY
        for hit in plural.finditer(sentence)
        if not of_names.match(hit[0])
    ]
    assert not found


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (PlanNote.LEFTOVERS_REMOVED(files=1), "1 leftover file of an interrupted operation is removed"),
        (PlanNote.LEFTOVERS_REMOVED(files=3), "3 leftover files of an interrupted operation are removed"),
        (PlanNote.SWAP_COMPLETED(files=1), "an interrupted swap is completed: 1 file is renamed"),
        (PlanNote.REPLACED_REMOVED(files=1), "1 file of a replaced segment is removed"),
        (PlanNote.REPLACED_REMOVED(files=2000), "2000 files of replaced segments are removed"),
    ],
)
def test_notes(reason: Reason, text: str) -> None:
    assert words(reason) == text


def test_counts_of_tables() -> None:
    assert [count_text(n, "byte goes", "bytes go") for n in (0, 1, 2000)] == [
        "0 bytes go",
        "1 byte goes",
        "2,000 bytes go",
    ]
