"""docs/testing.md is true: its examples run, and it names what there is."""

from __future__ import annotations

import doctest
import inspect
import pathlib
import re
import subprocess
import sys

import pytest
from running import ROOT

from klogtool.broker.circumstances import Circumstances
from klogtool.building.wounds import WOUNDS
from klogtool.testing import LogDirBuilder, PartitionBuilder, Verdict, assert_log_clean, assert_records
from klogtool.testing.known import KnownArguments

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```pycon\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_the_examples_print_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert len(BLOCKS) > 2
    found = doctest.DocTestParser().get_doctest("".join(BLOCKS), {}, "testing.md", "docs/testing.md", 0)
    told: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(found, out=told.append).failed
    assert failed == 0, "".join(told)


@pytest.mark.slow
def test_the_test_file_on_the_page_passes(tmp_path: pathlib.Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    (tmp_path / "test_page.py").write_text("".join(blocks))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_diff_on_the_page_is_what_is_told(log_dir: LogDirBuilder) -> None:
    orders = log_dir.partition("orders-0").append([("a", "1"), ("b", "3"), ("c", "4")])
    with pytest.raises(AssertionError) as error:
        assert_records(orders.path, [("a", "1"), ("b", "2"), ("c", "4")])
    assert f"```text\nAssertionError: {error.value}\n```" in PAGE


def test_every_wound_and_each_of_its_arguments_is_on_the_page() -> None:
    named = set(re.findall(r"`[^`]*`", PAGE))
    words = {word for part in named for word in re.findall(r"\w+", part)}
    arguments = {name for wound in WOUNDS.values() for name in list(inspect.signature(wound).parameters)[2:]}
    assert set(WOUNDS) - words == set()
    assert arguments - words == {"broker_epoch"}


def test_every_argument_and_property_is_on_the_page() -> None:
    for function in (assert_log_clean, assert_records):
        assert [name for name in inspect.signature(function).parameters if f"`{name}`" not in PAGE][1:] == ["known"]
    assert [name for name in KnownArguments.__annotations__ if f"`{name}`" not in PAGE] == []
    assert set(KnownArguments.__annotations__) == set(Circumstances.__struct_fields__) - {"config_sections"}
    for kind in (Verdict, LogDirBuilder, PartitionBuilder):
        names = [name for name in dir(kind) if not name.startswith(("_", "check_"))]
        assert [name for name in names if not re.search(rf"[`.]{name}[`(]", PAGE)] == []
