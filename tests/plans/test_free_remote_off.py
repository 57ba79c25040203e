"""`free --remote` by the settings of a broker without remote storage, which may be another broker's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from remote_stores import LOGS, STORE
from running import run_here

SYSTEM = "remote.log.storage.system.enable"


@pytest.mark.parametrize("by_file", [True, False])
def test_no_local_segment_is_safe_to_lose(by_file: bool, tmp_path: Path) -> None:
    """Such a broker reads nothing from the store: a local segment that goes is lost to its consumers."""
    (tmp_path / "server.properties").write_text("log.dirs=/elsewhere\n")
    off = "--config-file=server.properties" if by_file else f"--config={SYSTEM}=false"
    words = [
        "free",
        str(LOGS),
        "--remote",
        str(STORE),
        "--config=remote.storage.enable=true",
        "--config=retention.ms=-1",
    ]
    done = run_here([*words, off, "--now=2026-11-26", "--json"], tmp_path)
    answers = [row["answer"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    assert not [item for answer in answers for item in answer["items"] if item["kind"] == "remote"]
    told = {Path(one["path"]).name: one["why"] for answer in answers for one in answer["left_out"]}
    why = "it has segments in remote storage, but its broker has no remote storage"
    assert dict.fromkeys(("orders-0", "orders-1", "pay-0"), why).items() <= told.items()
