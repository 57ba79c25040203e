"""Every start recovers the metadata log, whatever the marker of a clean stop says (KafkaRaftLog.createLog): `recover`
says the same beside the marker, without it, and for a copy outside of a log dir."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import pytest
from running import FIXTURES, run_here

from klogtool.log.partition import Partition

Path = pathlib.Path
METADATA = "__cluster_metadata-0"


def recovered(path: Path, *words: str) -> dict[str, Any]:
    done = run_here(["recover", str(path), "--json", *words], path.parent)
    (answer,) = (row["answer"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan")
    return {name: answer[name] for name in ("truncated", "log_end_offset")}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log dir of a broker that stopped cleanly, with a metadata log that is damaged in the middle."""
    copy = Path(shutil.copytree(FIXTURES / "metadata" / "logdir", tmp_path / "logs", copy_function=shutil.copyfile))
    (segment,) = Partition(str(copy / METADATA)).segments
    position = next(batch.position for batch in segment.batches() if batch.base_offset > 80)
    with Path(segment.path).open("r+b") as file:
        file.seek(position)
        file.write(bytes(1000))
    return copy


def test_a_marker_of_a_clean_stop_says_nothing_about_the_metadata_log(log_dir: Path, tmp_path: Path) -> None:
    beside = recovered(log_dir / METADATA)
    assert beside == recovered(log_dir / METADATA, "--last-stop", "unclean")
    assert beside["truncated"]
    assert beside != recovered(log_dir / METADATA, "--last-stop", "clean")  # the person's word wins
    (log_dir / ".kafka_cleanshutdown").unlink()
    assert beside == recovered(log_dir / METADATA)
    alone = Path(shutil.copytree(log_dir / METADATA, tmp_path / "alone" / METADATA))
    assert beside == recovered(alone)
