"""What came before an error, and the error: both readers have to agree on both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from klogtool.errors import KlogError

Item = TypeVar("Item")


def until_error(items: Iterable[Item]) -> tuple[list[Item], KlogError | None]:
    """The items up to the end or to the error; any error but klogtool's own fails the test."""
    found: list[Item] = []
    try:
        found += items  # what came before the error stays in the list
    except KlogError as error:
        return found, error
    return found, None
