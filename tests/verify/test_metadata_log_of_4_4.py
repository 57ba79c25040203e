"""__cluster_metadata-0 as Kafka 4.4.0 leaves it at a clean stop: both indexes at full size, all zeros. No damage."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from running import FIXTURES
from verifying import run_verify

LAST = "00000000000000000000"
SIZES = {".index": 10485760, ".timeindex": 10485756}


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir with a clean marker, and such indexes."""
    copied = tmp_path / "logdir"
    shutil.copytree(FIXTURES / "metadata/logdir", copied)
    (copied / ".kafka_cleanshutdown").write_bytes(b'{"version":0}')
    for suffix, size in SIZES.items():
        index = copied / "__cluster_metadata-0" / f"{LAST}{suffix}"
        index.write_bytes(b"")
        with index.open("r+b") as file:
            file.truncate(size)
    return copied


def test_it_is_no_damage(log_dir: pathlib.Path) -> None:
    findings = [found for found in run_verify(log_dir)[0] if "__cluster_metadata-0" in found.path]
    untrimmed = [found for found in findings if found.path.endswith(("index", "timeindex"))]
    assert [found.id for found in untrimmed] == ["index-untrimmed"] * 2
    assert {found.severity.value for found in findings} == {"info"}
