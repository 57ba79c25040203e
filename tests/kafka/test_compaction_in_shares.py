"""Passes of the cleaner done in shares, over logs made by Kafka's own append path: what the whole passes come to.

The logs, settings and rounds are those that Kafka's cleaner is asked about in test_compaction_against_kafka.py.
For more: `python -m tests.kafka.test_compaction_in_shares --count N --seed S`.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from klogtool import kernels

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent)]
from compacting_in_shares import compare  # noqa: E402

from .live import Question, Tally, agreed, parser_for, report  # noqa: E402
from .random_logs import Case  # noqa: E402
from .test_compaction_against_kafka import arguments_of, walk_logs  # noqa: E402

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.shared,
    pytest.mark.skipif(not kernels.is_built(), reason="the extension is not built"),
]

COUNT = 60


def check_shares(_: Any, case: Case, tally: Tally) -> Iterator[str]:
    """Whether they differ."""
    try:
        crew = compare(str(case.dir), arguments_of(case))
    except AssertionError as error:
        yield str(error)
        return
    told = "done as a whole" if crew is None else "map filled in one go" if crew.filled else "in shares"
    tally[told] += 1


QUESTIONS = {"shares": Question(walk_logs, check_shares)}


@pytest.mark.slow
def test_random_logs_are_cleaned_in_shares_as_by_one() -> None:
    tally = agreed(QUESTIONS["shares"], COUNT)
    assert tally["in shares"] > COUNT // 4


if __name__ == "__main__":
    sys.exit(report(QUESTIONS, parser_for(__doc__, QUESTIONS, count=400).parse_args()))
