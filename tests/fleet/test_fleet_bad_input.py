"""fleet with bad input: damaged partition dirs, files that somebody else wrote, huge sparse logs, no permission."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import shutil
from typing import Any

import pytest
from bad_input import FILES_OF_A_PARTITION, MEMORY_BYTES, garbage_for, writable_copy
from running import FIXTURES, Done, run_apart, run_here, with_memory, without_power_over_files

from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.errors import KlogError, Refused
from klogtool.fleet.checking import check
from klogtool.fleet.framed import CollectedFiles
from klogtool.fleet.metadata import Wishes, rebuild
from klogtool.fleet.metadata_records import snapshot_bytes, snapshot_name
from klogtool.fleet.planning import make_fleet_plan, read_fleet_plan
from klogtool.render.fleet_metadata import metadata_text
from klogtool.render.fleet_plan import fleet_plan_text

Path = pathlib.Path
VALUES: list[Any] = [None, -1, 0, 1, 1 << 62, 1 << 70, 1.5, "x", "\0", "\ud900", [], [[1, 0]], [[5, 1 << 62]], {}, True]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return writable_copy("transactions/logdir", tmp_path / "log dir")


def collected(log_dir: Path, *statuses: int) -> Done:
    """In a process with little memory; what it writes is whole."""
    done = run_apart("fleet", "collect", log_dir, "--jobs", "1", before=with_memory(MEMORY_BYTES))
    assert "Traceback" not in done.err
    assert done.status in (statuses or (0, 4)), done.err
    CollectedFiles().parse(done.out.splitlines(), "broker.klog")
    return done


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES_OF_A_PARTITION)
def test_garbage_in_a_file(log_dir: Path, name: str) -> None:
    for data in garbage_for(log_dir / "t-0" / name):
        (log_dir / "t-0" / name).write_bytes(data)
        collected(log_dir)


def test_a_huge_sparse_log(log_dir: Path) -> None:
    """Zeros behind the last batch: a hole of a terabyte is not read into memory."""
    log = sorted((log_dir / "t-0").glob("*.log"))[-1]
    with log.open("r+b") as file:
        file.truncate(1 << 31)
    collected(log_dir, 0)


def test_a_folder_without_permission(log_dir: Path) -> None:
    (log_dir / "t-0").chmod(0)
    try:
        done = run_apart("fleet", "collect", log_dir, before=without_power_over_files)
    finally:
        (log_dir / "t-0").chmod(0o755)
    assert done.status == 4
    assert "permission denied" in done.err
    assert [copy.problem is not None for copy in CollectedFiles().parse(done.out.splitlines(), "x").copies].count(
        True
    ) == 1


def test_checkpoints_of_garbage(log_dir: Path) -> None:
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        for data in (b"", b"\xff" * 100, b"0\n1\nt 0 99999999999999999999\n", b"0\n1\nt 0 -5\n"):
            (log_dir / name).write_bytes(data)
            collected(log_dir)


def signed(rows: list[dict[str, Any]]) -> bytes:
    """Rows as a file with a right end."""
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    end = {"type": "end", "lines": len(rows), "sum": hashlib.blake2b(lines, digest_size=16).hexdigest()}
    return lines + json.dumps(end).encode() + b"\n"


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()[:-1]]


def test_facts_that_no_disk_has(tmp_path: Path) -> None:
    """A file that is whole, with any value in any field: it is refused, or planned."""
    file = tmp_path / "broker.klog"
    file.write_bytes(run_here(["fleet", "collect", str(FIXTURES / "leader-epochs/logdir")], tmp_path).out)
    rows = rows_of(file)
    other = tmp_path / "other.klog"
    other.write_bytes(signed([rows[0], {**rows[1], "node_id": 2}, *rows[2:]]))
    for row in (1, 2):
        for name in rows[row]:
            for value in VALUES:
                file.write_bytes(
                    signed([{**each, **({name: value} if n == row else {})} for n, each in enumerate(rows)])
                )
                with contextlib.suppress(KlogError):
                    plan = make_fleet_plan([CollectedFiles().read(str(file)), CollectedFiles().read(str(other))])
                    assert list(fleet_plan_text(plan, is_verbose=True))


def test_bytes_that_are_no_text() -> None:
    rows = run_apart("fleet", "collect", FIXTURES / "transactions" / "logdir").out.splitlines(keepends=True)[:-1]
    rows[1] = rows[1].replace(b':"', b':"\xff', 1)
    summed = hashlib.blake2b(b"".join(rows), digest_size=16).hexdigest()
    end = json.dumps({"type": "end", "lines": len(rows), "sum": summed}).encode()
    for lines in ([*rows, end], [rows[0], b'{"type":"\xff"}']):
        with pytest.raises(Refused, match="line 2 is not valid JSON"):
            CollectedFiles().parse([line.rstrip(b"\n") for line in lines], "broker.klog")


@pytest.mark.slow
def test_metadata_of_facts_that_no_disk_has(tmp_path: Path) -> None:
    """`fleet metadata` refuses them, or writes a snapshot that is read back."""
    file, folder = tmp_path / "broker.klog", tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    disks = (str(FIXTURES / "two-disks/logdir" / name) for name in ("d1", "d2"))
    file.write_bytes(run_here(["fleet", "collect", *disks], tmp_path).out)
    rows = rows_of(file)
    wishes = Wishes(now_ms=1_700_000_000_000, adopt_stray=True, rebuild_anyway=True)
    for row, name, value in ((n, name, value) for n in range(len(rows)) for name in rows[n] for value in VALUES):
        file.write_bytes(signed([{**each, **({name: value} if n == row else {})} for n, each in enumerate(rows)]))
        with contextlib.suppress(KlogError):
            rebuilt = rebuild([CollectedFiles().read(str(file))], wishes)
            snapshot = snapshot_bytes(rebuilt, wishes.now_ms)
            assert metadata_text(rebuilt, None, len(snapshot))
            (folder / snapshot_name(rebuilt)).write_bytes(snapshot)
            assert read_cluster_metadata(str(folder)).problem is None, (row, name, value)


@pytest.mark.slow
def test_a_plan_with_any_value(tmp_path: Path) -> None:
    """The same for a plan: `apply` refuses it, or sees that it does not fit."""
    shutil.copytree(FIXTURES / "leader-epochs/logdir", tmp_path / "d")
    klog = tmp_path / "broker.klog"
    klog.write_bytes(run_here(["fleet", "collect", "d"], tmp_path).out)
    run_here(["fleet", "plan", "broker.klog", "--plan-out", "plan", "-q"], tmp_path)
    plan = tmp_path / "plan"
    rows = rows_of(plan)
    for row in (1, 2):
        for name in rows[row]:
            for value in VALUES:
                plan.write_bytes(
                    signed([{**each, **({name: value} if n == row else {})} for n, each in enumerate(rows)])
                )
                done = run_here(["fleet", "apply", "plan", "d", "-q"], tmp_path)
                assert done.status in (0, 3), (name, value, done.err)
                assert "Traceback" not in done.err
                with contextlib.suppress(KlogError):
                    list(check(read_fleet_plan(str(plan)), [CollectedFiles().read(str(klog))]))


@pytest.mark.parametrize("folder", ["../../x", "/etc", "", ".", "a/b", "t-0/../../x"])
def test_a_plan_that_leads_elsewhere(tmp_path: Path, folder: str) -> None:
    """A plan may not rename or cut what is no folder of the log dir."""
    shutil.copytree(FIXTURES / "leader-epochs/logdir", tmp_path / "d")
    (tmp_path / "broker.klog").write_bytes(run_here(["fleet", "collect", "d"], tmp_path).out)
    run_here(["fleet", "plan", "broker.klog", "--plan-out", "plan", "-q"], tmp_path)
    rows = rows_of(tmp_path / "plan")
    for action in ("truncate", "set-aside", "restore"):
        share = rows[2]["shares"][0]
        share["action"], share["to"], share["placed"]["copy"]["folder"] = action, 5, folder
        (tmp_path / "plan").write_bytes(signed(rows))
        done = run_here(["fleet", "apply", "plan", "d", "--apply"], tmp_path)
        assert done.status == 3, done.err
        assert "Traceback" not in done.err
