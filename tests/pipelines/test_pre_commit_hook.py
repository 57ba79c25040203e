"""The hook of .pre-commit-hooks.yaml: which log dirs it verifies, and what it says."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import pytest
from pre_commit import git, hook_of, run_hook, staged
from running import FIXTURES, ROOT, Done, path_of_shells

from klogtool.log.log_dirs import log_dirs_of_files
from klogtool.testing import wounds

Path = pathlib.Path
HOOK = hook_of(ROOT / ".pre-commit-hooks.yaml")
SOUND = "leader-epochs/logdir"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with two log dirs and a partition dir, all committed."""
    folder = tmp_path / "repo"
    for name in ("fixtures/one", "fixtures/the other"):
        shutil.copytree(FIXTURES / SOUND, folder / name)
    shutil.copytree(FIXTURES / SOUND / "t-0", folder / "fixtures/alone/t-0")
    git(tmp_path, "init", "-q", "repo")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "-q", "-m", "all")
    return folder


def hooked(repo: Path, *arguments: str) -> Done:
    """Stage all, and run the hook."""
    git(repo, "add", "--all", "--force", ".")
    ran = run_hook(repo, HOOK, *arguments, path=path_of_shells())
    return Done(ran.returncode, ran.stdout.encode(), ran.stderr)


def test_damage_in_a_changed_file_is_found(repo: Path) -> None:
    wounds.flip_bit(repo / "fixtures/the other/t-0", segment=0)
    done = hooked(repo)
    assert done.status == 1
    assert b"error    fixtures/the other/t-0/" in done.out
    assert b"1 error, 0 warnings" in done.out


def test_a_change_that_makes_another_file_wrong_is_found(repo: Path) -> None:
    """The log was cut where a batch ends: only the checkpoints beside it tell."""
    wounds.drop_batch(repo / "fixtures/one/t-0")
    done = hooked(repo, "--fail-on", "warning")
    assert done.status == 1
    assert b"checkpoint-entry" in done.out


def test_two_copies_of_a_log_dir_are_not_one_broker(repo: Path) -> None:
    for name in ("fixtures/one", "fixtures/the other", "fixtures/alone"):
        wounds.preallocate_index(repo / name / "t-0")
    done = hooked(repo)
    assert done.status == 0, done.out
    assert b"0 errors, 0 warnings, 3 notes" in done.out


def test_a_log_dir_that_did_not_change_is_not_read(repo: Path) -> None:
    wounds.flip_bit(repo / "fixtures/one/t-0", segment=0)
    hooked(repo)
    git(repo, "commit", "-q", "-m", "damaged")
    wounds.preallocate_index(repo / "fixtures/alone/t-0")
    assert hooked(repo).status == 0


def test_other_files_are_no_log_dirs(repo: Path) -> None:
    (repo / "build.log").write_text("hello")
    (repo / "data").mkdir()
    (repo / "data/pages.index").write_text("hello")
    (repo / "fixtures/README.md").write_text("hello")
    git(repo, "add", "--all")
    assert staged(repo, HOOK) == ["build.log", "data/pages.index"]
    done = hooked(repo)
    assert (done.status, done.out) == (0, b"")
    assert "nothing to verify: none of these files is in a log dir" in done.err


def test_an_excluded_log_dir_is_left_out(repo: Path) -> None:
    (repo / "klogtool.toml").write_text('exclude = ["fixtures/one"]\n')
    wounds.flip_bit(repo / "fixtures/one/t-0", segment=0)
    done = hooked(repo)
    assert (done.status, done.out) == (0, b""), done.err
    assert "all of those are excluded" in done.err


def test_no_file_is_no_mistake(repo: Path, klogtool: Callable[..., Done]) -> None:
    done = klogtool("verify", "--changed-files", folder=repo)
    assert (done.status, done.out) == (0, b"")


def test_a_deleted_segment_is_found_by_what_is_left(repo: Path) -> None:
    (repo / f"fixtures/one/t-0/{0:020d}.log").unlink()
    wounds.preallocate_index(repo / "fixtures/one/t-0", segment=42)
    assert hooked(repo, "--fail-on=warning").status == 1


def test_names_of_any_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert log_dirs_of_files(["nothing/x.log", "", "x.log"]) == []
    odd = tmp_path / "a\nb\udcff"
    shutil.copytree(FIXTURES / SOUND, odd)
    assert log_dirs_of_files([f"{odd}/t-0/{0:020d}.log", f"{odd}/meta.properties", f"{odd}/t-0"]) == [str(odd)]


def test_the_working_directory_may_be_the_log_dir(
    copy_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = copy_of(SOUND)
    monkeypatch.chdir(log_dir)
    assert log_dirs_of_files([f"t-0/{0:020d}.log", "meta.properties"]) == ["."]
    monkeypatch.chdir(log_dir / "t-0")
    assert log_dirs_of_files([f"{0:020d}.log"]) == [".."]
