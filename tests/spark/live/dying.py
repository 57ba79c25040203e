"""Tasks whose first attempt dies in the middle of its work, and what they should have done."""

from __future__ import annotations

import os
from typing import Any

from klogtool.disk.dataset import Attempt
from klogtool.spark.exporting import HowToExport, export_split
from klogtool.spark.planning import Split


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
