"""The table of findings has what `klogtool verify` finds, wherever a log dir lies and however many tasks look at it."""

from __future__ import annotations

import ast
import os
import pathlib
import pickle
import shlex
import shutil
import tempfile
from typing import Any

import pytest
from damage import flip_bit
from here import HERE
from loading import data, make, name_of
from planned import given
from running import FIXTURES
from test_spark_storage import elsewhere

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG
from klogtool.log.file import unreadable
from klogtool.log.storage import StoredFile
from klogtool.spark import fetching
from klogtool.spark.findings import Part, finding_fields, plan_parts, read_findings
from klogtool.spark.options import parse_query
from klogtool.spark.tables import FINDINGS
from klogtool.spark.verifying import verify_with_spark
from klogtool.verify.findings import Finding
from klogtool.verify.verification import VerifyOptions, verify

__all__ = ["elsewhere"]
NOW = Circumstances(now_ms=MAX_LONG)
WOUNDED = FIXTURES / "killed-mid-append/logdir"
LOG_DIRS = [p for p in sorted(FIXTURES.glob("*/logdir")) if p.parent.name != "two-disks"]
IDS_FILE = "version: 0\ntopic_id: {}\n"


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where temporary files go, and nothing else."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def parts_of(path: str | pathlib.Path, **options: Any) -> list[Part]:
    """As they come to the tasks."""
    query = parse_query(given(path, {"table": "findings", **options}), [])
    return [pickle.loads(pickle.dumps(part)) for part in plan_parts(query)]


def rows(path: str | pathlib.Path, *, deep: bool = False, **options: Any) -> list[str]:
    parts = parts_of(path, **options)
    batches = [batch for part in parts for batch in read_findings(part, tuple(FINDINGS), deep=deep)]
    return sorted(str(row) for batch in batches for row in batch.to_pylist())


def without_cure(row: str) -> str:
    """All of a row but its cure, which is the last field."""
    return row.partition("'cure': ")[0]


def verified(path: pathlib.Path, *, named: str = "", deep: bool = False) -> list[str]:
    """The rows that `verify` has. named: what stands for the path."""
    found = [finding_fields(f) for f in verify([str(path)], VerifyOptions(NOW, deep=deep)) if isinstance(f, Finding)]
    told = [str({name: row.get(name) for name in FINDINGS}) for row in found]
    return sorted(row.replace(str(path), named or str(path)) for row in told)


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("log_dir", LOG_DIRS, ids=lambda path: path.parent.name)
def test_rows_are_those_of_verify(
    elsewhere: list[Any], temporary: pathlib.Path, log_dir: pathlib.Path, deep: bool
) -> None:
    uri = f"far://{log_dir}"
    assert rows(log_dir, minPartitions=20, deep=deep) == verified(log_dir, deep=deep)
    assert rows(uri, minPartitions=3, deep=deep) == verified(log_dir, named=uri, deep=deep)
    by_command = [f for f in verify_with_spark(HERE, [uri], NOW, deep=deep) if isinstance(f, Finding)]
    told = [finding_fields(found) for found in by_command]
    assert rows(uri, deep=deep) == sorted(str({name: row.get(name) for name in FINDINGS}) for row in told)
    assert os.listdir(temporary) == []


@pytest.mark.parametrize("name", ["plain", "two words", "it's", "a$b"])
def test_the_cure_of_a_finding_in_a_store_can_be_pasted(
    elsewhere: list[Any], tmp_path: pathlib.Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    log = make(tmp_path / name / "t-0", {0: [data(0)]})
    flip_bit(log / name_of(0, "log"), 66)
    findings = map(ast.literal_eval, rows(f"far://{tmp_path / name}"))
    cures = [finding["cure"] for finding in findings if finding["id"] == "batch-crc"]
    assert [shlex.split(cure)[2] for cure in cures] == [f"far://{log}"]


@pytest.mark.parametrize("below", ["t-0", f"t-0/{name_of(0, 'log')}"])
@pytest.mark.parametrize("is_clean", [False, True])
def test_what_is_given_by_itself_is_judged_by_what_lies_beside_it(
    elsewhere: list[Any], tmp_path: pathlib.Path, below: str, is_clean: bool
) -> None:
    log = make(tmp_path / "t-0", {0: [data(n) for n in range(9)]})
    (log / name_of(0, "index")).write_bytes((log / name_of(0, "index")).read_bytes() + bytes(80))
    flip_bit(log / name_of(0, "log"), 8 * len(data(0)) + 70)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 9\n")
    if is_clean:
        (tmp_path / ".kafka_cleanshutdown").write_text("")
    expected = verified(tmp_path / below)
    assert any("batch-crc" in row for row in expected)
    assert rows(tmp_path / below) == expected
    there = [row.replace(str(tmp_path), f"far://{tmp_path}") for row in expected]
    assert rows(f"far://{tmp_path / below}") == there
    by_command = verify_with_spark(HERE, [f"far://{tmp_path / below}"], NOW)
    assert len([found for found in by_command if isinstance(found, Finding)]) == len(expected)


@pytest.mark.slow
def test_folders_of_log_dirs_each_by_itself_and_none_twice(elsewhere: list[Any], tmp_path: pathlib.Path) -> None:
    for name in ("one", "other"):
        shutil.copytree(WOUNDED, tmp_path / name)
    each = [row for name in ("one", "other") for row in verified(tmp_path / name)]
    assert rows(tmp_path) == sorted(each)
    assert rows(f"far://{tmp_path}") == sorted(row.replace(str(tmp_path), f"far://{tmp_path}") for row in each)
    for where in (f"{tmp_path}", f"far://{tmp_path}"):
        paths = [where, f"{where}/one", f"{where}/other/flip-bit-0", where]
        assert rows("", paths=str(paths).replace("'", '"')) == rows(where)


def test_nothing_is_fetched_twice(elsewhere: list[Any], tmp_path: pathlib.Path) -> None:
    for n in range(4):
        make(tmp_path / f"t-{n}", {0: [data(n) for n in range(9)]})
    parts = parts_of(f"far://{tmp_path}", minPartitions=4)
    assert [len(part.targets) for part in parts] == [1, 1, 1, 1]
    assert elsewhere == []  # but names and sizes
    for part in parts:
        list(read_findings(part, ("id",), deep=False))
    logs = [piece for piece in elsewhere if piece[0].endswith(".log")]
    assert logs == [(name_of(0, "log"), 0, 9 * len(data(0)))] * 4


def test_what_partitions_say_of_each_other_is_found_by_many_tasks(elsewhere: list[Any], tmp_path: pathlib.Path) -> None:
    for n, topic_id in enumerate(("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")):
        log = make(tmp_path / f"t-{n}", {0: [data(n) for n in range(9)]})
        (log / "partition.metadata").write_text(IDS_FILE.format(topic_id))
    expected = verified(tmp_path)
    assert len([row for row in expected if "topic-id-mismatch" in row]) == 1
    assert rows(tmp_path, minPartitions=3) == expected
    assert rows(f"far://{tmp_path}", minPartitions=3) == verified(tmp_path, named=f"far://{tmp_path}")


def test_what_a_log_dir_says_of_its_logs_is_held_against_each(elsewhere: list[Any], tmp_path: pathlib.Path) -> None:
    for n in range(3):
        make(tmp_path / f"t-{n}", {0: [data(n) for n in range(9)]})
    lines = ("t 0 9", "t 1 12", "t 2 -4", "gone 0 1")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("\n".join(("0", "4", *lines, "")))
    (tmp_path / "replication-offset-checkpoint").write_text("no number\n")
    (tmp_path / ".kafka_cleanshutdown").write_text("")
    expected = verified(tmp_path)
    for name, count in (("checkpoint-entry", 3), ("checkpoint-corrupt", 1), ("clean-marker-false", 1)):
        assert len([row for row in expected if name in row]) == count
    # A task knows only its own partitions, and so its cure of a checkpoint mends only their lines.
    assert sorted(map(without_cure, rows(tmp_path, minPartitions=3))) == sorted(map(without_cure, expected))
    far, expected = f"far://{tmp_path}", verified(tmp_path, named=f"far://{tmp_path}")
    assert sorted(map(without_cure, rows(far, minPartitions=3))) == sorted(map(without_cure, expected))


def test_a_task_that_fails_leaves_nothing(
    elsewhere: list[Any], temporary: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = parts_of(f"far://{WOUNDED}")

    def fails(file: StoredFile, position: int, size: int) -> bytes:
        assert any(os.scandir(temporary))
        raise unreadable(file.path, OSError(5, "gone"), position)

    monkeypatch.setattr(StoredFile, "read", fails)
    with pytest.raises(KlogError, match="far://"):
        list(read_findings(parts[0], tuple(FINDINGS), deep=False))
    assert os.listdir(temporary) == []


def test_a_plan_that_fails_leaves_nothing(
    elsewhere: list[Any], temporary: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> bool:
        assert any(os.scandir(temporary))
        raise KlogError("gone")

    monkeypatch.setattr(fetching, "_tells_of_all", fails)
    with pytest.raises(KlogError, match="gone"):
        parts_of(f"far://{WOUNDED}")
    assert os.listdir(temporary) == []


def test_a_place_that_is_not_there(elsewhere: list[Any], temporary: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(KlogError, match="no such file or directory"):
        parts_of(f"far://{tmp_path}/nowhere")
    assert os.listdir(temporary) == []
