"""Which exception of Kafka's a parser names when it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

from klogtool.errors import Corrupt

Arguments = ParamSpec("Arguments")


def kafka_class_of(parse: Callable[Arguments, object], *args: Arguments.args, **kwargs: Arguments.kwargs) -> str | None:
    """The kafka_class of the Corrupt that `parse(...)` raises, or None if it accepts; other exceptions come through."""
    try:
        parse(*args, **kwargs)
    except Corrupt as error:
        return error.kafka_class or "Corrupt without a class"
    return None
