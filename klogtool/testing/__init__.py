"""For tests of tools that write, read or repair log dirs: assertions, wounds, a broker's verdict.

    clean        assert_log_clean: nothing is wrong with a log
    records      assert_records: a log has these records
    verdict      broker_would: what a broker's start would do
    wounds       wounds of files on a disk
    known        what a broker would know, as arguments
    builder      log dirs made step by step; what the fixture log_dir gives; records as people write them

    plugin       the plugin of pytest: the fixture log_dir

All but the plugin works without pytest: an assertion raises AssertionError. Names are imported when they are first
used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from klogtool.testing.builder import LogDirBuilder as LogDirBuilder
    from klogtool.testing.builder import PartitionBuilder as PartitionBuilder
    from klogtool.testing.clean import assert_log_clean as assert_log_clean
    from klogtool.testing.records import assert_records as assert_records
    from klogtool.testing.verdict import Verdict as Verdict
    from klogtool.testing.verdict import broker_would as broker_would

_WHERE = {"assert_log_clean": "clean", "assert_records": "records", "Verdict": "verdict", "broker_would": "verdict"}
_WHERE |= {"LogDirBuilder": "builder", "PartitionBuilder": "builder"}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """Import a public name from its module, and keep it here."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    return value
