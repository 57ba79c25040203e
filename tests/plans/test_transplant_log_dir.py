"""A whole log dir gets another cluster id: only meta.properties changes, and undo brings it back."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from running import FIXTURES, ROOT, run_here, tree_of

from klogtool.log.logdir import LogDir

ID = "AAAAAAAAAAAAAAAAAAAAAw"


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    place = tmp_path / "a log dir"
    shutil.copytree(FIXTURES / "metadata/logdir", place)
    return place


def contents_of(folder: pathlib.Path) -> dict[str, tuple[bytes, int]]:
    """Contents and mtimes of all files."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_only_the_cluster_id_changes_and_undo_brings_it_back(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before, kept, identity = tree_of(log_dir), contents_of(log_dir), LogDir(str(log_dir)).meta_properties
    assert identity is not None
    done = run_here(["transplant", str(log_dir), "--cluster-id", ID, "--json"], tmp_path)
    (plan,) = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    assert (done.status, plan["answer"]["source_cluster_id"]) == (0, identity.cluster_id)
    assert tree_of(log_dir) == before
    assert run_here(["transplant", str(log_dir), "--cluster-id", ID, "--apply"], tmp_path).status == 0
    changed = LogDir(str(log_dir)).meta_properties
    assert changed is not None
    assert (changed.cluster_id, changed.node_id, changed.directory_id) == (ID, identity.node_id, identity.directory_id)
    contents = contents_of(log_dir)
    assert {name for name in kept if kept[name] != contents.get(name)} == {"meta.properties"}
    again = run_here(["transplant", str(log_dir), "--cluster-id", ID], tmp_path)
    assert (again.status, b"already" in again.out) == (0, True)
    assert run_here(["undo", str(log_dir)], tmp_path).status == 0
    assert contents_of(log_dir) == kept


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--cluster-id", "x"], 2),
        (["--cluster-id", ID, "--topic", "t"], 2),
        (["--cluster-id", ID, "--output", "out"], 2),
    ],
)
def test_what_does_not_fit(words: list[str], status: int, log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = tree_of(log_dir)
    assert run_here(["transplant", str(log_dir), *words], tmp_path).status == status
    assert tree_of(log_dir) == before


def test_a_partition_dir_and_a_log_dir_without_identity(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    partition = next(path for path in sorted(log_dir.iterdir()) if path.is_dir())
    assert run_here(["transplant", str(partition), "--cluster-id", ID], tmp_path).status == 2
    (log_dir / "meta.properties").unlink()
    assert run_here(["transplant", str(log_dir), "--cluster-id", ID, "--apply"], tmp_path).status == 3


def text_of(log_dir: pathlib.Path, folder: pathlib.Path) -> str:
    done = run_here(["transplant", str(log_dir), "--cluster-id", ID], folder)
    assert done.status == 0, done.err
    return done.out.decode()


def test_it_says_where_controllers_are_known_to_be(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The voters of a dynamic quorum stand in the metadata, those of a static one in settings."""
    assert "The metadata names no voters: where controllers listen is in controller.quorum.voters" in text_of(
        log_dir, tmp_path
    )
    dynamic = text_of(ROOT / "docs/examples/quorum/n1", tmp_path)
    assert "The metadata has the controllers at 1@127.0.0.1:43001, 2@127.0.0.1:43002, 3@127.0.0.1:43003:" in dynamic


def test_topics_with_remote_storage_are_named(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A clone shares their objects with the original, and nobody copies these here."""
    assert "remote storage" not in text_of(log_dir, tmp_path)
    pages = sorted(map(str, (ROOT / "docs/examples/restored").glob("*.klog")))
    setting = ("--topic-config", "plain:remote.storage.enable=true", "--rebuild-anyway")
    built = run_here(["fleet", "metadata", *pages, *setting, "--output", str(tmp_path / "built")], tmp_path)
    assert built.status in (0, 1), built.err
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    shutil.copytree(next((tmp_path / "built").rglob("*.checkpoint")).parent, log_dir / "__cluster_metadata-0")
    assert "NOT DONE: 1 topic with remote storage, such as plain." in text_of(log_dir, tmp_path)
