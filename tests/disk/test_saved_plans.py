"""Saved plans: what somebody has changed in one is refused in one line that names the field, and nothing is written."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from made import picture
from msgspec.structs import asdict
from quorums import Disk, voter
from running import FIXTURES, run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.file_facts import sum_of
from klogtool.disk.facts import with_digests
from klogtool.plans.decisions import DECISIONS, decide, question_type
from klogtool.plans.fleet_share import Cut, FleetShareQuestion, Move
from klogtool.plans.mend import MendQuestion, MoveFolder, RenameFile
from klogtool.plans.plan import moved_out
from klogtool.plans.question import Question, read_question
from klogtool.plans.quorum_voters import VotersQuestion
from klogtool.plans.saved_plan import SavedPlan, build_saved_plans

NOW = "--now 1700000400000"
COMMANDS = {
    "recover": ("killed-mid-append/logdir/flip-bit-0", NOW),
    "rebuild-index": ("transactions/logdir/t-0", "--only index"),
    "salvage": ("killed-mid-append/logdir/flip-bit-0", NOW),
    "append": ("transactions/logdir/t-0", f"--records records {NOW}"),
    "truncate": ("transactions/logdir/t-0", f"--to 5 {NOW}"),
    "roll": ("transactions/logdir/t-0", f"--force {NOW}"),
    "retain": ("transactions/logdir/t-0", f"--config retention.bytes=1 --purge {NOW}"),
    "delete-records": ("transactions/logdir/t-0", f"--before 9 {NOW}"),
    "compact": ("transactions/logdir/t-0", f"--config cleanup.policy=compact --force {NOW}"),
    "drop-producer": ("transactions/logdir/t-0", f"--producer-id 0 {NOW}"),
    "free": ("transactions/logdir/t-0", f"--bytes 1 --config retention.bytes=1 {NOW}"),
    "transplant": ("leader-epochs/logdir/t-0", f"--topic-id AAAAAAAAAAAAAAAAAAAAAw {NOW}"),
    "quorum": ("transactions/logdir/t-0", ""),
    "doctor --fix": ("transactions/logdir/t-0", ""),
    "fleet apply": ("transactions/logdir/t-0", ""),
}
STRAY = "t-0.0123456789abcdef0123456789abcdef-stray"
EDITS = (
    RenameFile("t-0/one.deleted", "t-0/two.deleted"),
    MoveFolder("t-0", STRAY),
    MoveFolder("foo", moved_out("logs", "foo")),
)
NAMES = sorted({name for command in COMMANDS for name in question_type(command).__struct_fields__} - {"circumstances"})
NAMES += sorted(Circumstances(now_ms=0).as_arguments())
OTHERS: list[Any] = [None, True, 0, -1, 1 << 200, 1.5, "", "x", "a\0b", "\ud800", "../../x", "/etc", [], [[]], {}]
GONE = object()
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", params=COMMANDS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """A folder with a copy of a log dir, and a plan of one command over it."""
    where, options = COMMANDS[request.param]
    box = tmp_path_factory.mktemp("saved")
    log_dir, name = (FIXTURES / where).parent, os.path.basename(where)
    (box / "logs").mkdir()
    for file in log_dir.iterdir():
        shutil.copytree(file, box / "logs" / name) if file.name == name else None
        shutil.copy2(file, box / "logs") if file.is_file() else None
    (box / "records").write_text('{"key":"a","value":"b"}\n')
    if request.param in SAVED:
        SAVED[request.param](box)
        yield box
        shutil.rmtree(box)
        return
    path = box / "logs" if request.param == "free" else box / "logs" / name
    words = [*request.param.split(), *options.split(), str(path), "--plan-out", str(box / "plan")]
    done = run_here(words, box)
    assert (box / "plan").exists(), done.err
    yield box
    shutil.rmtree(box)


def save_edits(box: pathlib.Path) -> None:
    """Save a plan that also renames folders."""
    (box / "logs" / "foo").mkdir()
    (box / "logs" / "t-0" / "one.deleted").write_bytes(b"old")
    save(box, "doctor --fix", MendQuestion(**asdict(Circumstances(now_ms=0)), edits=EDITS))


def save_share(box: pathlib.Path) -> None:
    """Save a plan that cuts a partition and sets a folder aside."""
    (box / "logs" / "t-1").mkdir()
    log_dir = str(box / "logs")
    acts = (Cut(log_dir, "t-0", 5), Move(log_dir, "t-1", moved_out(log_dir, "t-1")))
    save(box, "fleet apply", FleetShareQuestion(**asdict(Circumstances(now_ms=0)), acts=acts))


def save(box: pathlib.Path, command: str, question: Question) -> None:
    """Save the plans of a question about the log dir."""
    plans = [SavedPlan.of(plan) for plan in decide(command, str(box / "logs"), question)]
    head = {"type": "klogtool", "version": "0", "schema": 1, "command": command, "paths": [str(box / "logs")]}
    (box / "plan").write_bytes(build_saved_plans(head, with_digests(plans)))


def save_voters(box: pathlib.Path) -> None:
    """Save a plan of new voters, over two copies of the metadata log."""
    copies = []
    for node in (1, 4):
        copies.append(str(box / "logs" if node == 1 else box / "other"))
        disk = Disk(box / "disks", node).voters(voter(1), voter(2), voter(3)).records(3)
        shutil.copytree(disk.path, copies[-1], dirs_exist_ok=True)
    wish = {"standalone": True, "destroyed": (2, 3), "accept_loss": True}
    save(
        box,
        "quorum",
        VotersQuestion(**asdict(Circumstances(now_ms=0)), copies=tuple(copies), settings=({}, None), **wish),
    )


SAVED = {"doctor --fix": save_edits, "fleet apply": save_share, "quorum": save_voters}


def rows_of(path: pathlib.Path) -> Rows:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def build(rows: Rows, *, with_sums: bool) -> bytes:
    """The lines of a plan. with_sums: as if klogtool itself had saved the wrong thing."""
    lines = []
    for row in rows:
        if not isinstance(row, dict):
            lines.append(json.dumps(row).encode())
            continue
        told = {name: value for name, value in row.items() if name != "sum"}
        line = json.dumps(told, separators=(",", ":")).encode()
        found = sum_of(line) if with_sums else row.get("sum")
        lines.append(line[:-1] + b',"sum":%b}' % json.dumps(found).encode() if "sum" in row else line)
    return b"\n".join(lines) + b"\n"


def walk_places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is, in depth; of long lists the first two."""
    if place:
        yield place
    if isinstance(value, dict):
        for name in value:
            yield from walk_places(value[name], (*place, name))
    if isinstance(value, list):
        for n in range(len(value) if not place else min(2, len(value))):
            yield from walk_places(value[n], (*place, n))


def changed(rows: Rows, place: tuple[Any, ...], value: Any) -> Rows:
    found = copy.deepcopy(rows)
    at: Any = found
    for step in place[:-1]:
        at = at[step]
    if value is GONE:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return found


def refused(box: pathlib.Path, data: bytes) -> str:
    """The one line that `apply` has for it."""
    (box / "changed").write_bytes(data)
    done = run_here(["apply", str(box / "changed")], box)
    assert done.status == 3, (data, done)
    assert len(done.told.splitlines()) == 1, (data, done.told)
    assert done.out == b"" or b"Plan" in done.out
    return done.told


@pytest.fixture
def elsewhere(saved: pathlib.Path) -> Iterator[list[str]]:
    """The option for a journal on another disk, for the command that needs one."""
    if rows_of(saved / "plan")[0]["command"] != "free":
        yield []
        return
    if os.stat("/dev/shm").st_dev == saved.stat().st_dev:
        pytest.skip("/dev/shm is no other disk here")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield ["--journal", folder]


def test_a_plan_as_it_was_saved_is_carried_out_and_taken_back(saved: pathlib.Path, elsewhere: list[str]) -> None:
    before = picture(saved / "logs")
    done = run_here(["apply", str(saved / "plan"), *elsewhere], saved)
    assert done.status in (0, 1), done.err  # 1: records are lost by it, as the plan says
    assert picture(saved / "logs") != before
    assert run_here(["undo", *(elsewhere or [str(saved / "logs")])], saved).status == 0
    assert picture(saved / "logs") == before


@pytest.mark.slow
def test_any_field_that_is_another_one(saved: pathlib.Path) -> None:
    rows, before = rows_of(saved / "plan"), picture(saved)
    places = list(walk_places(rows))
    assert len(places) > 60
    chosen = random.Random(25)
    for place in places:
        for value in (GONE, *chosen.sample(OTHERS, 3)):
            mutated = changed(rows, place, value)
            if mutated != rows:
                told = refused(saved, build(mutated, with_sums=False))
                assert "not a plan that klogtool saved" in told, (place, value)
    (saved / "changed").unlink(missing_ok=True)
    assert picture(saved) == before | {".": picture(saved)["."]}


def test_a_field_of_another_type_is_named(saved: pathlib.Path) -> None:
    """Also where the sum fits."""
    rows, before = rows_of(saved / "plan"), picture(saved / "logs")
    wrong: dict[tuple[Any, ...], Any] = {
        (1, "path"): 7,
        (1, "command"): [],
        (1, "facts"): {},
        (1, "facts", 0, "path"): None,
        (1, "facts", 1, "size"): "large",
        (1, "facts", 1, "mtime_ns"): 1.5,
        (1, "facts", 1, "ctime_ns"): None,
        (1, "facts", 1, "ino"): -1,
        (1, "steps"): None,
        (1, "steps", 0, "path"): "../../x",
        (1, "steps", 0, "step"): "format",
        (1, "arguments"): [],
        (1, "arguments", "now_ms"): "now",
        (1, "arguments", "config"): {"retention.ms": 5},
        (1, "arguments", "config_sections"): [["a"]],
        (1, "arguments", "jobs"): 1 << 40,
        (1, "arguments", "last_stop"): "dirty",
        (1, "answer"): 3,
        (0, "paths"): ["relative"],
        (0, "plans"): "1",
    }
    for place, value in wrong.items():
        name = str(place[-1]) if isinstance(place[-1], str) else str(place[-2])
        told = refused(saved, build(changed(rows, place, value), with_sums=True))
        assert name in told, (place, told)
    assert picture(saved / "logs") == before


@pytest.mark.parametrize("saved", ["doctor --fix"], indirect=True)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("to", to) for to in ("../x", "../logs.moved-out/../x", "../other.moved-out/x", "t-1/x", "/etc/x", "..", "")),
        *(("path", path) for path in ("..", ".", "../logs", "t-0/x", "/etc", "")),
        ("to", None),
        ("to", "a\0b"),
    ],
)
def test_a_folder_leads_nowhere_else(saved: pathlib.Path, field: str, value: Any) -> None:
    rows, before = rows_of(saved / "plan"), picture(saved / "logs")
    for n in (0, 1):
        told = refused(saved, build(changed(rows, (2, "steps", n, field), value), with_sums=True))
        assert f"steps[{n}]" in told
    assert picture(saved / "logs") == before


@pytest.mark.parametrize("saved", ["doctor --fix"], indirect=True)
@pytest.mark.parametrize(
    "edit",
    [
        {"edit": "move-folder", "path": "foo", "to": "../x"},
        {"edit": "delete-file", "path": "../../x"},
        {"edit": "write-file", "path": "/etc/x", "text": ""},
        {"edit": "write-file", "path": "a\0b", "text": ""},
        {"edit": "write-file", "path": "x", "text": "x" * ((1 << 20) + 1)},
        {"edit": "write-file", "path": "x"},
        {"edit": "delete-file", "path": "x", "to": "y"},
        {"edit": "format", "path": "x"},
        {},
        7,
    ],
)
def test_an_edit_that_leads_elsewhere_is_refused(saved: pathlib.Path, edit: Any) -> None:
    (saved / "changed").unlink(missing_ok=True)
    rows, before = rows_of(saved / "plan"), picture(saved)
    for row in (1, 2):
        rows = changed(rows, (row, "arguments", "edits", 0), edit)
    refused(saved, build(rows, with_sums=True))
    (saved / "changed").unlink()
    assert {**picture(saved), ".": ()} == {**before, ".": ()}


def test_an_argument_of_another_type_is_named(saved: pathlib.Path) -> None:
    """Each name gets each of the values over some plan."""
    rows, before = rows_of(saved / "plan"), picture(saved / "logs")
    first = list(COMMANDS).index(rows[1]["command"]) if rows[1]["command"] in COMMANDS else 0
    for n, name in enumerate(NAMES, first):
        value = ({"a": {"b": 1}}, [[1]], 1.5)[n % 3]
        told = refused(saved, build(changed(rows, (1, "arguments", name), value), with_sums=True))
        assert f"arguments.{name}" in told
    assert picture(saved / "logs") == before


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="half"),
        pytest.param(lambda data: data.splitlines(keepends=True)[0], id="no plan"),
        pytest.param(lambda data: b"".join(data.splitlines(keepends=True)[1:]), id="no head"),
        pytest.param(lambda data: data + data.splitlines(keepends=True)[-1], id="one twice"),
        pytest.param(lambda data: data.replace(b":", b";"), id="no JSON"),
        pytest.param(lambda data: data.replace(b'"size":', b'"size":1' + b"0" * 5000), id="a number of 5,000 digits"),
        pytest.param(lambda data: b"\0" * 100, id="zeros"),
        pytest.param(lambda _: b"", id="nothing"),
    ],
)
def test_a_damaged_file(saved: pathlib.Path, damage: Callable[[bytes], bytes]) -> None:
    before = picture(saved / "logs")
    refused(saved, damage((saved / "plan").read_bytes()))
    assert picture(saved / "logs") == before


def test_as_json_it_is_an_answer(saved: pathlib.Path) -> None:
    (saved / "changed").write_bytes((saved / "plan").read_bytes().replace(b'"facts":[', b'"facts":[7,'))
    done = run_here(["apply", str(saved / "changed"), "--format", "json"], saved)
    assert (done.status, done.told) == (3, "")
    answer = json.loads(done.out.splitlines()[-1])
    assert "facts[0]" in answer["error"]["message"]


def test_a_question_is_read_back_as_it_was_asked(saved: pathlib.Path) -> None:
    for row in rows_of(saved / "plan")[1:]:
        question = read_question(question_type(row["command"]), row["arguments"])
        assert json.loads(json.dumps(question.as_arguments())) == row["arguments"]


def test_an_argument_that_the_command_does_not_have_is_refused(saved: pathlib.Path) -> None:
    """It may be an option of a later version: without it the plan would be another one."""
    rows, before = rows_of(saved / "plan"), picture(saved / "logs")
    for name in ("keep_every", "circumstances", "\ud800"):
        told = refused(saved, build(changed(rows, (1, "arguments", name), True), with_sums=True))
        assert told.endswith(" is unknown\n")
        assert "plan 1: arguments." in told
    assert picture(saved / "logs") == before


def test_every_command_that_decides_is_tried_here() -> None:
    assert COMMANDS.keys() == DECISIONS.keys() - {"test"}


@pytest.mark.parametrize("meanwhile", ["apply and undo", "cp -al logs backup", "chmod -R g+w logs", "put back"])
def test_a_plan_is_still_good_where_no_byte_has_changed(
    saved: pathlib.Path, meanwhile: str, elsewhere: list[str]
) -> None:
    before, kept = picture(saved / "logs"), elsewhere
    if meanwhile == "apply and undo":
        assert run_here(["apply", str(saved / "plan"), *kept], saved).status in (0, 1)
        assert run_here(["undo", *(kept or [str(saved / "logs")])], saved).status == 0
    elif meanwhile == "put back":
        subprocess.run(["cp", "-a", "logs", "away"], cwd=saved, check=True)
        shutil.rmtree(saved / "logs")
        (saved / "away").rename(saved / "logs")
    else:
        subprocess.run(meanwhile.split(), cwd=saved, check=True)
    if kept and "backup" in meanwhile:  # with another name each, these files free nothing any more
        assert run_here(["apply", str(saved / "plan"), *kept], saved).status == 3
        shutil.rmtree(saved / "backup")
    done = run_here(["apply", str(saved / "plan"), *kept], saved)
    assert done.status in (0, 1), done.err  # 1: records are lost by it, as the plan says
    assert run_here(["undo", *(kept or [str(saved / "logs")])], saved).status == 0
    shutil.rmtree(saved / "backup", ignore_errors=True)
    subprocess.run(["chmod", "-R", "g-w", "logs"], cwd=saved, check=True)
    assert picture(saved / "logs") == before


@pytest.mark.parametrize("saved", ["salvage"], indirect=True)
@pytest.mark.parametrize("lost", [[7], [[1]], [None], [{}], ["x"], 7, {"first_offset": 3}])
def test_an_answer_that_somebody_changed_does_not_change_what_is_done(saved: pathlib.Path, lost: Any) -> None:
    """The answer is for people: klogtool decides again."""
    rows, before = rows_of(saved / "plan"), picture(saved / "logs")
    (saved / "changed").write_bytes(build(changed(rows, (1, "answer", "lost"), lost), with_sums=True))
    done = run_here(["apply", str(saved / "changed")], saved)
    assert done.status in (0, 1), done.err
    assert run_here(["undo", str(saved / "logs")], saved).status == 0
    assert picture(saved / "logs") == before


@pytest.mark.parametrize("saved", ["roll"], indirect=True)
def test_a_log_dir_in_its_settings_that_no_path_can_be(saved: pathlib.Path) -> None:
    rows, before = rows_of(saved / "plan"), picture(saved / "logs")
    sections = [[None, {"log.dirs": "/x\0y"}]]
    told = refused(saved, build(changed(rows, (1, "arguments", "config_sections"), sections), with_sums=True))
    assert "arguments.config_sections: log.dirs contains a NUL character" in told
    assert picture(saved / "logs") == before
