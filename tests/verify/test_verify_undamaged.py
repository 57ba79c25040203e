"""What nobody damaged has no errors and no warnings, whatever release wrote it."""

from __future__ import annotations

import pathlib

import pytest
from running import FIXTURES, ROOT
from verifying import found, run_verify

CORPUS = ROOT.parent / "shared" / "corpus"
DAMAGED = {"killed-mid-append", "2.8.2-crash/logdir", "4.3.1-crash/logdir"}
MARKER_OR_CHECKPOINT = "recovery-point-offset-checkpoint"


def log_dirs(root: pathlib.Path) -> list[str]:
    found = [path.parent.relative_to(root).as_posix() for path in sorted(root.rglob(MARKER_OR_CHECKPOINT))]
    return [name for name in found if not name.startswith(tuple(DAMAGED))]


@pytest.mark.parametrize("name", log_dirs(FIXTURES))
def test_a_log_dir_of_the_fixtures(name: str) -> None:
    assert found(FIXTURES / name) == []


@pytest.mark.parametrize("name", log_dirs(FIXTURES))
def test_each_partition_dir_and_each_file_of_the_fixtures(name: str) -> None:
    for partition in (path for path in (FIXTURES / name).iterdir() if path.is_dir()):
        assert found(partition) == []
        for file in partition.iterdir():
            if not file.name.endswith(".deleted"):
                assert found(file) == []


@pytest.mark.shared
@pytest.mark.parametrize("name", log_dirs(CORPUS) if CORPUS.exists() else [pytest.param("", id="none")])
def test_a_log_dir_of_the_corpora(name: str) -> None:
    if not name:
        pytest.skip("no ../shared/corpus beside the project")
    assert found(CORPUS / name) == []


@pytest.mark.shared
def test_two_log_dirs_of_one_broker() -> None:
    dirs = FIXTURES / "two-disks/logdir"
    assert found(dirs / "d1", dirs / "d2") == []


def test_the_summary_counts_all_of_it() -> None:
    _, summary = run_verify(FIXTURES / "every-codec/logdir")
    assert (summary.partitions, summary.batches, summary.records) == (11, 122, 612)
    assert summary.complete
