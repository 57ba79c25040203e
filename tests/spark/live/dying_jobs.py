"""Tasks whose first attempt dies in the middle of its work, and what they should have done."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from klogtool.disk.dataset import Attempt
from klogtool.spark import sharing
from klogtool.spark.exporting import HowToExport, export_split
from klogtool.spark.planning import Split
from klogtool.spark.sharing import TaskCrew


def export_at_second_try(marks: str, dataset: str, how: HowToExport, numbered: tuple[int, Split]) -> dict[str, Any]:
    """The first attempt writes a file and dies before its message; every third one dies behind it."""
    mark = os.path.join(marks, str(numbered[0]))
    if os.path.exists(mark):
        return export_split(dataset, how, numbered)
    with open(mark, "x"):
        pass
    if numbered[0] % 3:
        with Attempt(dataset, numbered[0]).file("topic=t/part-00000.snappy.parquet") as sink:
            sink.write(b"half of it")
    else:
        export_split(dataset, how, numbered)
    os._exit(1)


def crew_with(marks: str) -> type[TaskCrew]:
    """A crew of whose tasks of each kind the first to come does its work, and dies before it can say so."""

    class DyingCrew(TaskCrew):
        def find_keys(self, sent: Any, shares: Any) -> Any:
            return _with_deaths(marks, "_find_keys", lambda: super(DyingCrew, self).find_keys(sent, shares))

        def clean_groups(self, sent: Any, shares: Any, latest_offset: int) -> Any:
            return _with_deaths(
                marks, "_clean_groups", lambda: super(DyingCrew, self).clean_groups(sent, shares, latest_offset)
            )

        def write_files(self, folder: Any) -> Any:
            return _with_deaths(marks, "write_file_aside", lambda: super(DyingCrew, self).write_files(folder))

    return DyingCrew


def _with_deaths(marks: str, name: str, work: Callable[[], Any]) -> Any:
    there = getattr(sharing, name)
    setattr(sharing, name, partial(die_at_first, marks, name, there))
    try:
        return work()
    finally:
        setattr(sharing, name, there)


def die_at_first(marks: str, name: str, work: Callable[..., Any], *given: Any) -> Any:
    """Once, whichever task it is."""
    found = work(*given)
    try:
        os.mkdir(os.path.join(marks, name))
    except FileExistsError:
        return found
    os._exit(1)
