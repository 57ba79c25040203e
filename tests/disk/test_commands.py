"""The command line around writing: what is printed, exit statuses, and that what it says to type works."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import subprocess
from typing import Any

import pytest
from made import contents, make_log_dir, picture, what_becomes
from running import Done, run_here

from klogtool.broker.file_facts import sum_of
from klogtool.disk.disk import Disk
from klogtool.disk.journal import Entry, walk_entries
from klogtool.plans import decisions


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return make_log_dir(box)


def run(*args: object, folder: pathlib.Path | None = None) -> Done:
    return run_here([str(arg) for arg in args], folder or pathlib.Path("/"))


def rows(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_plan_is_printed_and_nothing_is_written(log_dir: pathlib.Path) -> None:
    before = picture(log_dir.parent)
    done = run("test", log_dir / "t-0")
    assert done.status == 0
    assert done.told == ""
    text = done.out.decode()
    assert "  truncate  00000000000000000000.log        to 8,000 bytes: cuts 1,000\n" in text
    assert "  rename    00000000000000000009.log.swap   to 00000000000000000009.log\n" in text
    assert "7,240 bytes are held for undo" in text
    assert text.endswith("Nothing was changed. --apply does it, with undo. --output DIR writes the result elsewhere.\n")
    assert picture(log_dir.parent) == before


@pytest.mark.parametrize("depth", [18, 600])
def test_a_saved_plan_with_bottomless_arguments_is_none(log_dir: pathlib.Path, depth: int) -> None:
    """Not a traceback, whatever depth this Python's JSON can read and its other code cannot."""
    saved = log_dir.parent / "plans"
    run("test", log_dir / "t-1", "--plan-out", saved)
    head, plan, *_ = saved.read_text().splitlines()
    before, arguments, behind = plan.partition('"arguments":{')
    deep = before + arguments + '"x":' + "[" * depth + "]" * depth + "," * (not behind.startswith("}")) + behind
    saved.write_text(f"{head}\n{deep}\n")
    done = run("apply", saved)
    why = "arguments.x is unknown" if depth == 18 else "the line is not valid JSON"
    assert done.told == f"klogtool: {saved}: not a plan that klogtool saved: plan 1: {why}\n"
    assert done.status == 3


@pytest.mark.parametrize("folder", [".", "t-0"])
def test_no_plan_is_saved_among_logs(log_dir: pathlib.Path, folder: str) -> None:
    before = picture(log_dir.parent)
    done = run("test", log_dir / "t-1", "--plan-out", log_dir / folder / "plans")
    assert (done.status, "this file cannot be saved in" in done.told) == (3, True)
    assert picture(log_dir.parent) == before


def test_a_plan_as_json(log_dir: pathlib.Path) -> None:
    head, plan = rows(run("test", log_dir / "t-1", "--format", "json"))
    assert head == {"type": "klogtool", "version": head["version"], "schema": 1, "command": "test"}
    assert {"type", "id", "command", "path", "facts", "steps", "segments", "bytes_freed", "bytes_held", "answer"} <= {
        *plan
    }
    assert plan["facts"][0] == {"path": str(log_dir / "t-1"), "size": 0, "mtime_ns": 10**18 + 1}
    assert plan["steps"][1] == {"step": "truncate", "path": "00000000000000000000.log", "size": 1000}
    assert (plan["bytes_held"], plan["bytes_freed"]) == (24 + 3096, 24 + 3096 - 1)


def test_several_paths_are_several_plans_and_one_run(log_dir: pathlib.Path) -> None:
    before = picture(log_dir)
    done = run("test", log_dir / "t-0", log_dir / "t-1", log_dir, "--format", "json", "--apply")
    assert done.status == 0
    assert [row["type"] for row in rows(done)] == ["klogtool", "plan", "plan", "plan", "applied"]
    assert run("undo", log_dir).status == 0
    assert picture(log_dir) == before


def test_what_apply_says_to_type_takes_it_back(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = picture(log_dir.parent)
    done = run("test", log_dir, log_dir / "t-0", log_dir / "t-1", "--apply", "--format", "json")
    assert contents(log_dir) == what_becomes_of_a_copy(before, tmp_path)
    words = shlex.split(rows(done)[-1]["undo"])
    assert words[0] == "klogtool"
    taken_back = run(*words[1:])
    assert taken_back.status == 0
    assert taken_back.out.decode().startswith("Undone: ")
    assert {n: row for n, row in picture(log_dir.parent).items() if n != "."} == {
        n: row for n, row in before.items() if n != "."
    }


def what_becomes_of_a_copy(before: dict[str, tuple[object, ...]], at: pathlib.Path) -> dict[str, bytes]:
    (at / "copy").mkdir()
    return what_becomes(make_log_dir(at / "copy"), at)


def test_text_says_it_too(log_dir: pathlib.Path) -> None:
    done = run("test", log_dir / "t-0", "--apply")
    lines = done.out.decode().splitlines()
    entry = only_entry(log_dir)
    assert lines[-2].endswith(
        f"bytes are held for undo. To take it back: klogtool undo {entry.id} --journal {entry.journal}"
    )
    assert lines[-1] == f"To give up undo and free them: klogtool undo --discard {entry.id} --journal {entry.journal}"
    assert run(*shlex.split(lines[-1].split("klogtool ")[1])).status == 0
    assert os.listdir(log_dir.parent) == ["kafka"]


def only_entry(log_dir: pathlib.Path) -> Entry:
    (entry,) = walk_entries(f"{log_dir}.klogtool")
    return entry


def test_output(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    before = picture(log_dir)
    done = run("test", "t-0", "--output", "../out", "--format", "json", folder=log_dir)
    assert done.status == 0
    assert rows(done)[-1] == {"type": "written", "path": str(box / "out")}
    assert (box / "out" / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"
    again = run("test", log_dir / "t-0", "--output", box / "out")
    assert (again.status, again.told) == (3, f"klogtool: {box / 'out'}: the output folder is not empty\n")
    assert picture(log_dir) == before


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["kafka/t-0", "--apply", "--output", "out"], "not both"),
        (["kafka/t-0", "kafka/t-1", "--output", "out"], "--output takes exactly one PATH"),
        (["kafka/t-0", "--journal", "j"], "--journal needs --apply"),
        (["kafka/t-0", "--output", "no/out"], "no such folder"),
        (["nothing"], "no such file"),
    ],
)
def test_wrong_usage(log_dir: pathlib.Path, words: list[str], why: str) -> None:
    before = picture(log_dir.parent)
    done = run("test", *words, folder=log_dir.parent)
    assert done.status == 2
    assert why in done.err
    assert picture(log_dir.parent) == before


@pytest.mark.parametrize("way", [["--apply"], ["--output", "out"], ["--plan-out", "plan"], []])
def test_what_kafka_refuses(log_dir: pathlib.Path, way: list[str]) -> None:
    before = picture(log_dir.parent)
    told = run("test", "kafka/t-0", "--refuse", *way, folder=log_dir.parent)
    assert (told.status, told.out) == (3, b"")
    assert told.told.splitlines()[0] == f"klogtool: {log_dir / 't-0'}: at byte 5: a codec that there is not"
    as_json = run("test", "kafka/t-0", "--refuse", "--format", "json", *way, folder=log_dir.parent)
    assert (as_json.status, as_json.told) == (3, "")
    answer = rows(as_json)[-1]
    assert answer["type"] == "answer"
    assert answer["error"]["class"] == "IllegalArgumentException"
    assert picture(log_dir.parent) == before


def test_a_saved_plan(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    before, plan = picture(log_dir), box / "a plan"
    done = run("test", log_dir / "t-0", log_dir / "t-1", "--plan-out", plan)
    assert done.told == f"klogtool: plan saved; to carry it out: klogtool apply '{plan}'\n"
    assert picture(log_dir) == before
    assert [json.loads(line)["type"] for line in plan.read_bytes().splitlines()] == ["klogtool", "plan", "plan"]
    assert run("test", log_dir / "t-0", "--plan-out", plan).status == 3
    assert run("test", log_dir / "t-0", "--plan-out", box / "another", "--quiet").told == ""
    assert run("test", log_dir / "t-0", "--plan-out", log_dir / "t-0" / "plan").status == 3
    applied = run("apply", plan, "--format", "json")
    assert applied.status == 0
    assert [row["type"] for row in rows(applied)] == ["klogtool", "plan", "plan", "applied"]
    assert entry_commands(log_dir) == ["test"]
    assert picture(log_dir) != before
    again = run("apply", plan, "--format", "json")
    assert again.status == 3
    assert rows(again)[-1]["error"]["class"] == "StalePlan"
    assert run("undo", folder=log_dir).status == 0
    assert picture(log_dir) == before
    assert run("apply", plan).status == 0


def entry_commands(log_dir: pathlib.Path) -> list[object]:
    return [entry.head().command for entry in walk_entries(f"{log_dir}.klogtool")]


def test_a_saved_plan_that_would_be_another_now(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    run("test", log_dir / "t-0", "--plan-out", box / "plan")
    head, plan = map(json.loads, (box / "plan").read_bytes().splitlines())
    rows: list[dict[str, Any]] = [{**row, "id": "0123456789ab"} for row in (head, plan)]
    told = [json.dumps({n: v for n, v in row.items() if n != "sum"}, separators=(",", ":")).encode() for row in rows]
    lines = [line[:-1] + b',"sum":"%b"}\n' % sum_of(line).encode() for line in told]
    (box / "plan").write_bytes(b"".join(lines))
    before = picture(log_dir)
    done = run("apply", box / "plan")
    assert done.status == 3
    assert "now decides differently" in done.err
    assert picture(log_dir) == before
    assert not (box / "kafka.klogtool").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"{}",
        b"[1]",
        b'{"type":"klogtool","schema":1}\n{"type":"plan"}',
        b'{"type":"klogtool","schema":2}',
        b'{"type":"klogtool","schema":1}\n{"id":"1","command":"test","path":"/","arguments":{},"facts":[],"steps":'
        b'[{"step":"delete","path":"../../etc/passwd"}]}',
        b"[" * 100_000,
    ],
    ids=lambda data: data[:40].decode(),
)
def test_a_file_that_is_no_plan(box: pathlib.Path, data: bytes) -> None:
    (box / "plan").write_bytes(data)
    done = run("apply", box / "plan")
    assert done.status == 3
    assert len(done.told.splitlines()) == 1
    assert "Traceback" not in done.err


def test_an_interrupt_in_the_middle(log_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = picture(log_dir), Disk.delete

    def interrupted(self: Disk, path: str) -> None:
        if path.endswith("00000000000000000020.index"):
            raise KeyboardInterrupt
        real(self, path)

    monkeypatch.setattr(Disk, "delete", interrupted)
    done = run("test", log_dir / "t-0", "--apply")
    monkeypatch.undo()
    assert done.status == 130
    entry = only_entry(log_dir)
    assert done.told == (
        f"klogtool: interrupted: step 8 of 11 is done: rename {log_dir}/t-0/00000000000000000020.log\n"
        f"klogtool: interrupted; to take back what was done: klogtool undo {entry.id} --journal {entry.journal}\n"
        f"To finish it: klogtool apply --resume {entry.id} --journal {entry.journal}\n"
    )
    listed = rows(run("undo", "--list", "--format", "json", folder=log_dir))
    assert [(row["type"], row.get("state")) for row in listed] == [("klogtool", None), ("run", "cut short")]
    assert run("undo", "--discard", entry.id, log_dir).status == 3
    assert run("undo", entry.id, log_dir).status == 0
    assert picture(log_dir) == before


def test_an_interrupt_before_the_first_step(log_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = picture(log_dir)
    monkeypatch.setattr(Disk, "link", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    done = run("test", log_dir / "t-0", "--apply")
    assert (done.status, done.told) == (130, "klogtool: interrupted: nothing was changed\n")
    assert picture(log_dir) == before
    assert os.listdir(log_dir.parent) == ["kafka"]


def test_what_was_cut_short_can_be_finished(log_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Disk.truncate

    def interrupted(self: Disk, path: str, size: int) -> None:
        if size == 100:
            raise KeyboardInterrupt
        real(self, path, size)

    monkeypatch.setattr(Disk, "truncate", interrupted)
    assert run("test", log_dir / "t-0", "--apply").status == 130
    monkeypatch.undo()
    assert (log_dir / "t-0" / "00000000000000000020.log").stat().st_size == 5000
    monkeypatch.setitem(decisions.DECISIONS, "test", "made")
    done = run("apply", "--resume", log_dir / "t-0")
    assert done.status == 0
    assert (log_dir / "t-0" / "00000000000000000020.log.deleted").stat().st_size == 100
    assert run("apply", "--resume", folder=log_dir / "t-0").status == 3
    assert "there is nothing to finish" in run("apply", "--resume", folder=log_dir / "t-0").err


def test_where_journals_are_looked_for(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    before = picture(log_dir)
    journal = box / "elsewhere"
    ways: list[tuple[list[object], list[object], pathlib.Path]] = [
        ([], [], log_dir),
        ([], [], log_dir / "t-0"),
        ([], [], box),
        ([], [log_dir], box),
        ([], [log_dir / "t-0"], box),
        ([], [f"{log_dir}.klogtool"], pathlib.Path("/")),
        (["--journal", journal], ["--journal", journal], pathlib.Path("/")),
        (["--journal", journal], [journal], pathlib.Path("/")),
    ]
    for given, words, folder in ways:
        assert run("test", log_dir / "t-0", "--apply", *given).status == 0
        table = run("undo", "--list", *words, folder=folder).out.decode().splitlines()
        assert len(table) == 2, (words, folder)
        assert table[0].split("  ")[0] == "id"
        assert table[1].endswith("done")
        assert run("undo", *words, folder=folder).status == 0
        assert picture(log_dir) == before
    nothing = run("undo", folder=log_dir)
    assert nothing.status == 2
    assert "nothing to undo" in nothing.err
    assert run("undo", "--list", folder=log_dir).status == 0
    assert run("undo", "0123456789ab", folder=log_dir).status == 2
    assert run("undo", "nonsense", folder=log_dir).status == 2


def test_the_newest_run_is_the_one_that_is_undone(log_dir: pathlib.Path) -> None:
    run("test", log_dir / "t-0", "--apply")
    between = picture(log_dir)
    run("test", log_dir / "t-1", "--apply")
    assert run("undo", "--discard", folder=log_dir).status == 3
    assert run("undo", folder=log_dir).status == 0
    assert picture(log_dir) == between


def test_a_broker_that_has_the_log_dir(log_dir: pathlib.Path) -> None:
    holds = (
        "import fcntl,sys; f=open(sys.argv[1],'a+b'); fcntl.lockf(f,fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        ["python3", "-c", holds, log_dir / ".lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        before = picture(log_dir)
        done = run("test", log_dir / "t-0", "--apply", "--format", "json")
        assert done.status == 3
        assert rows(done)[-1]["error"]["class"] == "LogDirInUse"
        assert picture(log_dir) == before
        broker.communicate(b"")


def test_nothing_to_do_leaves_no_journal(log_dir: pathlib.Path) -> None:
    done = run("test", log_dir / "t-9", "--apply")
    assert done.status == 2
    (log_dir / "t-9").mkdir()
    done = run("test", log_dir / "t-9", "--apply")
    assert (done.status, done.out) == (0, b"Nothing to do.\n")
    assert os.listdir(log_dir.parent) == ["kafka"]
