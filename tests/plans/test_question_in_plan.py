"""A question that is saved with a plan is read as it was asked: the plan is decided again from it."""

from __future__ import annotations

import json
from typing import get_args

import msgspec
import pytest

from klogtool.plans.decisions import DECISIONS, question_type
from klogtool.plans.question import Question, read_question


def switched(kind: type[Question]) -> list[tuple[str, bool]]:
    flags = [field.name for field in msgspec.structs.fields(kind) if bool in (field.type, *get_args(field.type))]
    return [(name, value) for name in flags for value in (True, False)]


CASES = [(command, name, value) for command in DECISIONS for name, value in switched(question_type(command))]


@pytest.mark.parametrize(("command", "name", "value"), CASES)
def test_each_switch_is_read_as_it_was_set(command: str, name: str, value: bool) -> None:
    kind = question_type(command)
    needed = {field.name: field for field in msgspec.structs.fields(kind) if field.required and field.name != name}
    sample = {
        key: msgspec.convert([] if "tuple" in str(field.type) else 1, field.type) for key, field in needed.items()
    }
    asked = kind(**{"now_ms": 0, **sample, name: value})
    assert read_question(kind, json.loads(json.dumps(asked.as_arguments()))) == asked
