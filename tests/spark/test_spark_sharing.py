"""A partition that many tasks compact is, to the byte, what `klogtool compact` makes of it."""

from __future__ import annotations

import logging
import os
import pathlib
from typing import Any

import pytest
from here import HERE
from running import run_here
from test_spark_commands import files_of, log_dirs

from klogtool.disk.assembling import Assembly
from klogtool.spark import sharing
from klogtool.spark.compacting import compact_with_spark, find_folders

SETTINGS = {"config": {"cleanup.policy": "compact"}, "now_ms": 1_790_000_000_000, "force": True, "jobs": 1}


@pytest.fixture(autouse=True)
def a_task_for_each_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "TASK_BYTES", 1)
    monkeypatch.setattr(sharing, "TASKS_A_SLOT", 1000)
    monkeypatch.setattr(sharing, "LARGEST_SENT_BYTES", 50)


def shared(path: str, output: pathlib.Path, settings: dict[str, Any]) -> Any:
    assembly = Assembly.begin(str(output), [path])
    try:
        return compact_with_spark(HERE, assembly, settings, find_folders(path, settings), share_bytes=0)
    finally:
        assembly.abandon()


@pytest.mark.parametrize("path", [p for p in log_dirs() if "metadata" not in p and "killed" not in p])
def test_a_log_dir_is_that_of_one_machine(path: str, tmp_path: pathlib.Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    words = ["--force", "--now", "1790000000000", "--config", "cleanup.policy=compact", "--output", "alone"]
    told = run_here(["compact", path, *words], tmp_path)
    if told.status == 3:
        pytest.skip("the cleaner breaks off")
    shared(path, tmp_path / "spread", SETTINGS)
    print(caplog.text)
    assert files_of(tmp_path / "spread") == files_of(tmp_path / "alone")
    assert sorted(os.listdir(tmp_path)) == ["alone", "spread"]
    assert "by one task" not in caplog.text
