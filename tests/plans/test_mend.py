"""doctor --fix: edits become plans, and what leads elsewhere, is done already or is impossible is refused."""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from msgspec.structs import asdict
from running import run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.disk.facts import with_digests
from klogtool.errors import KlogError, Refused
from klogtool.log.file import Unreadable
from klogtool.plans.decisions import decide
from klogtool.plans.mend import (
    COMMAND,
    MOST_TEXT_BYTES,
    DeleteFile,
    Edit,
    MendQuestion,
    MoveFolder,
    RenameFile,
    SetOffset,
    WriteFile,
)
from klogtool.plans.plan import Delete, Plan, Rename, RenameFolder, Write, moved_out
from klogtool.plans.question import read_question
from klogtool.plans.saved_plan import SavedPlan, build_saved_plans, decide_saved
from klogtool.render.plans import plan_text

OUT = moved_out("kafka", "foo")


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    log_dir = tmp_path / "kafka"
    for name in ("t-0/a.log", "t-0/partition.metadata", "t-1/a.log", "foo/x", "meta.properties", "cleaner-offset"):
        (log_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (log_dir / name).write_text(f"this is {name}\n")
    return log_dir


def asked(*edits: Edit) -> MendQuestion:
    return MendQuestion(**asdict(Circumstances(now_ms=0)), edits=edits)


def decided(log_dir: pathlib.Path, *edits: Edit) -> list[Plan]:
    return list(decide(COMMAND, str(log_dir), asked(*edits)))


def files(log_dir: pathlib.Path) -> dict[str, str]:
    found = (path for path in log_dir.parent.rglob("*") if path.is_file() and ".klogtool" not in str(path))
    return {str(path.relative_to(log_dir.parent)): path.read_text() for path in sorted(found)}


ALL: tuple[Edit, ...] = (
    MoveFolder("foo", OUT),
    WriteFile("t-1/partition.metadata", "version: 0\n"),
    DeleteFile("cleaner-offset"),
    RenameFile("t-0/a.log", "t-0/b.log"),
    MoveFolder("t-1", "t-2"),
    WriteFile("t-0/partition.metadata", ""),
)


def test_a_plan_for_each_folder_and_the_log_dir_last(log_dir: pathlib.Path) -> None:
    first, second, last = decided(log_dir, *ALL)
    assert [plan.path for plan in (first, second, last)] == [f"{log_dir}/t-0", f"{log_dir}/t-1", str(log_dir)]
    assert first.steps == (Rename("a.log", "b.log"), Write("partition.metadata", ()))
    assert second.steps == (Write("partition.metadata", (b"version: 0\n",)),)
    assert last.steps == (Delete("cleaner-offset"), RenameFolder("foo", OUT), RenameFolder("t-1", "t-2"))


def test_facts_are_about_what_is_touched(log_dir: pathlib.Path) -> None:
    first, second, last = decided(log_dir, *ALL)
    assert [fact.path for fact in first.facts] == ["", "a.log", "partition.metadata"]
    assert [fact.path for fact in second.facts] == [""]
    assert [fact.path for fact in last.facts] == ["cleaner-offset", "foo", "t-1"]
    assert all(fact.names for fact in last.facts[1:])


def test_the_text_of_a_plan(log_dir: pathlib.Path) -> None:
    lines = plan_text(decided(log_dir, *ALL)[-1]).splitlines()
    assert lines[1:4] == [
        "  delete         cleaner-offset",
        "  move folder    foo             to ../kafka.moved-out/foo",
        "  rename folder  t-1             to t-2",
    ]


def test_lines_of_a_checkpoint_are_changed_together(log_dir: pathlib.Path) -> None:
    path = log_dir / "log-start-offset-checkpoint"
    path.write_text("0\n3\na 0 5\nb 1 6\nc 0 7\n")
    edits = (SetOffset(path.name, "a", 0, 1), SetOffset(path.name, "b", 1), SetOffset(path.name, "d", 2, 9))
    (plan,) = decided(log_dir, *edits)
    assert plan.steps == (Write(path.name, (b"0\n3\na 0 1\nc 0 7\nd 2 9\n",)),)


@pytest.mark.parametrize(
    ("text", "edit", "told"),
    [
        ("0\n1\na 0 5\n", SetOffset("x-checkpoint", "a", 0, 5), "is so already"),
        ("0\n1\na 0 5\n", SetOffset("x-checkpoint", "b", 0), "is so already"),
        ("hello\n", SetOffset("x-checkpoint", "b", 0, 1), "Malformed line"),
        ("0\n0\n", SetOffset("y-checkpoint", "b", 0, 1), "no such file"),
    ],
)
def test_a_line_that_cannot_be_changed_is_refused(log_dir: pathlib.Path, text: str, edit: Edit, told: str) -> None:
    (log_dir / "x-checkpoint").write_text(text)
    with pytest.raises(KlogError, match=told):
        decided(log_dir, edit)


def test_nothing_asked_is_no_plan(log_dir: pathlib.Path) -> None:
    assert decided(log_dir) == []


def test_a_question_is_read_back_as_it_was_asked(log_dir: pathlib.Path) -> None:
    question = asked(*ALL, WriteFile("x\udcff", "y\udcff"))
    assert read_question(MendQuestion, json.loads(json.dumps(question.as_arguments()))) == question


def test_a_saved_plan_is_carried_out_and_taken_back(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (log_dir / "t-1" / "partition.metadata").write_text("damaged")
    (log_dir / "b\udcff").mkdir()
    out = moved_out("kafka", "b\udcff")
    plans = decided(log_dir, *ALL, MoveFolder("b\udcff", out), WriteFile("d\udcff", "\udcff"))
    head = {"type": "klogtool", "version": "0", "schema": 1, "command": COMMAND, "paths": [str(log_dir)]}
    saved = build_saved_plans(head, with_digests(map(SavedPlan.of, plans)))
    (tmp_path / "plan").write_bytes(saved)
    before = files(log_dir)
    done = run_here(["apply", str(tmp_path / "plan")], tmp_path)
    assert done.status == 0, done.told
    after = {path.name for path in log_dir.rglob("*")}
    assert after == {"t-0", "b.log", "partition.metadata", "t-2", "a.log", "meta.properties", "d\udcff"}
    assert sorted(os.listdir(tmp_path / "kafka.moved-out")) == ["b\udcff", "foo"]
    assert run_here(["undo", str(log_dir)], tmp_path).status == 0
    assert files(log_dir) == before
    assert run_here(["apply", str(tmp_path / "plan")], tmp_path).status == 0, "it is the same log dir again"


def test_a_plan_has_its_own_edits_and_is_decided_by_itself(log_dir: pathlib.Path) -> None:
    plans = decided(log_dir, *ALL)
    assert [len(plan.arguments["edits"]) for plan in plans] == [2, 1, 3]
    for paths in ([], [str(log_dir)], [str(log_dir.parent / "other"), str(log_dir)]):
        again = decide_saved([SavedPlan.of(plan, with_content=False) for plan in plans], paths)
        assert [plan.id for plan in again] == [plan.id for plan in plans]
    assert [SavedPlan.of(plan, with_content=False).decided() for plan in plans] == plans


def test_a_log_dir_that_is_named_by_a_link(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(log_dir)
    assert [plan.path for plan in decided(tmp_path / "link", *ALL)][-1] == str(log_dir)


@pytest.mark.parametrize(
    "edit",
    [
        *(
            kind(path)
            for kind in (DeleteFile, lambda path: WriteFile(path, "x"), lambda path: RenameFile(path, "y"))
            for path in ("", ".", "..", "/etc/passwd", "../x", "t-0/..", "t-0/../x", "a/b/c", "t-0/", "//x", "a\0b")
        ),
        *(RenameFile("meta.properties", to) for to in ("", "..", "../x", "t-0/x", "/x", "a\0b")),
        RenameFile("t-0/a.log", "b.log"),
        RenameFile("t-0/a.log", "t-1/b.log"),
        *(MoveFolder("foo", to) for to in ("", "..", "../foo", "t-0/foo", "/x", "../x.moved-out/foo", f"{OUT}/x")),
        *(MoveFolder(path, "x") for path in ("", ".", "..", "../kafka", "t-0/x", "/x", "a\0b", OUT)),
        *(MoveFolder("foo", f"../kafka.moved-out/{name}") for name in ("", ".", "..", "../x", "x" * 256)),
        WriteFile(".lock", ""),
        DeleteFile("t-0/.lock"),
        RenameFile("meta.properties", ".lock"),
    ],
)
def test_what_leads_elsewhere_is_refused(log_dir: pathlib.Path, edit: Edit) -> None:
    with pytest.raises(Refused):
        decided(log_dir, edit)


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        ([DeleteFile("gone")], "no such file to delete"),
        ([DeleteFile("meta.properties"), DeleteFile("meta.properties")], "no such file to delete"),
        ([DeleteFile("foo")], "not a file"),
        ([DeleteFile("gone/x")], "no such folder"),
        ([WriteFile("meta.properties", "this is meta.properties\n")], "this text already"),
        ([WriteFile("x", "1"), WriteFile("x", "1")], "this text already"),
        ([WriteFile("foo", "1")], "not a file"),
        ([WriteFile("x", "é" * (MOST_TEXT_BYTES // 2 + 1))], "bytes of text are more than"),
        ([RenameFile("gone", "x")], "no such file to rename"),
        ([RenameFile("meta.properties", "cleaner-offset")], "another file has the name"),
        ([RenameFile("meta.properties", "meta.properties")], "another file has the name"),
        ([RenameFile("meta.properties", "foo")], "not a file"),
        ([MoveFolder("gone", "x")], "no such folder"),
        ([MoveFolder("meta.properties", "x")], "not a folder"),
        ([MoveFolder("foo", "t-0")], "this name already"),
        ([MoveFolder("foo", "foo")], "this name already"),
        ([MoveFolder("foo", "meta.properties")], "this name already"),
        ([MoveFolder("foo", "x"), WriteFile("x", "")], "this name already"),
        ([MoveFolder("foo", "x"), MoveFolder("foo", "y")], "no such folder"),
        ([MoveFolder("foo", "x"), MoveFolder("t-0", "x")], "this name already"),
    ],
)
def test_what_is_done_or_impossible_is_refused(log_dir: pathlib.Path, edits: list[Edit], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        decided(log_dir, *edits)


def test_a_log_dir_is_named_in_full(log_dir: pathlib.Path) -> None:
    for name in ("kafka", ""):
        question = MendQuestion(**asdict(Circumstances(now_ms=0)), edits=(DeleteFile("cleaner-offset"),), log_dir=name)
        with pytest.raises(Refused, match="absolute"):
            list(decide(COMMAND, str(log_dir), question))


def test_what_is_outside_already_is_refused(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "kafka.moved-out" / "foo").mkdir(parents=True)
    with pytest.raises(Refused, match="this name already"):
        decided(log_dir, MoveFolder("foo", OUT))
    (plan,) = decided(log_dir, MoveFolder("foo", moved_out("kafka", "foo-1")))
    assert plan.steps == (RenameFolder("foo", "../kafka.moved-out/foo-1"),)


def test_a_link_to_a_folder_is_not_moved(log_dir: pathlib.Path) -> None:
    (log_dir / "t-3").symlink_to(log_dir / "t-0")
    with pytest.raises(Refused, match="a symbolic link"):
        decided(log_dir, MoveFolder("t-3", "t-4"))


def test_folders_can_take_names_that_others_had(log_dir: pathlib.Path) -> None:
    (plan,) = decided(log_dir, MoveFolder("t-0", "x"), MoveFolder("t-1", "t-0"), MoveFolder("x", "t-1"))
    assert [fact.path for fact in plan.facts] == ["t-0", "t-1"]


def test_a_log_dir_that_is_gone(tmp_path: pathlib.Path) -> None:
    for edit in (MoveFolder("foo", "x"), DeleteFile("x")):
        with pytest.raises(KlogError, match=r"no such f") as error:
            decided(tmp_path / "gone", edit)
        assert isinstance(error.value, Unreadable | Refused)
