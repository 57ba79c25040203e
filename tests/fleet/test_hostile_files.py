"""Files of fleet that somebody made to do harm: what no disk has is refused, in a file and in a plan."""

from __future__ import annotations

import copy
import pathlib
from time import process_time
from typing import Any

import pytest
from fleet.test_fleet_bad_input import rows_of, signed
from running import FIXTURES, run_here

from klogtool.fleet.framed import CollectedFiles
from klogtool.fleet.planning import make_fleet_plan

Path = pathlib.Path
Rows = list[dict[str, Any]]

# Where, and what no disk has there. A dot goes into an object, a number into a list.
HOSTILE: dict[str, list[tuple[str, Any]]] = {
    "copy": [
        *(
            ("folder", name)
            for name in ("../../etc", "/etc", "..", "t-0/../x-0", "t-0\n", "t\n-0", "x-0", "t-0.a-stray")
        ),
        *(("topic", name) for name in ("t\nt", "../t", "", "t t", "t\u001b[31m", "x")),
        *(("partition", number) for number in (-1, 7, 1 << 40)),
        *(("log_dir", path) for path in ("/elsewhere", "", "d")),
        *(("log_start_offset", number) for number in (-1, 1 << 62)),
        *(("sound_end_offset", number) for number in (-1, 1 << 62)),
        ("epochs", [[5, 0], [4, 1]]),
        ("epochs", [[0, 9], [1, 3]]),
        ("checkpoint_epochs", [[0, 0], [0, 0]]),
        ("holes", [[9, 3]]),
        ("wounds", [[0, 9, 3, "batch-crc"]]),
        ("state", "stray"),
    ],
    "broker": [
        ("node_id", -2),
        ("log_dirs.0.path", "relative"),
        ("log_dirs.0.path", "/d\nx"),
        ("metadata", {"log_dir": "/elsewhere", "end_offset": 1}),
    ],
    "choice": [
        *(("topic", name) for name in ("t\nt", "../t", "", "x")),
        *(("partition", number) for number in (-1, 7)),
        *(("shares.0.placed.copy.folder", name) for name in ("../../etc", "t-0\n", "x-0", "..")),
        *(("shares.0.placed.copy.log_dir", path) for path in ("/elsewhere", "", "..")),
        ("shares.0.placed.node_id", 99),
        ("shares.0.placed.node_id", -1),
        ("shares.0.to", 1 << 62),
        ("shares.0.action", "truncate"),
        ("best.copy.partition", 3),
        ("older", [{"node_id": 1, "first": 9, "last": 1, "why": "x"}]),
        ("lost", [[9, 1]]),
    ],
    "fleet": [
        ("brokers.0.node_id", -1),
        ("brokers.0.log_dirs.0.path", "d"),
        ("conflicts", [{"topic": "t\n", "partition": 0, "node_id": 1}]),
    ],
}


def changed(rows: Rows, kind: str, where: str, value: Any) -> Rows:
    rows = copy.deepcopy(rows)
    item: Any = next(row for row in rows if row["type"] == kind)
    *path, last = [int(part) if part.isdigit() else part for part in where.split(".")]
    for part in path:
        item = item[part]
    item[last] = value
    return rows


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    """The rows of a file of collect, and of a plan."""
    folder = tmp_path_factory.mktemp("fleet")
    collected = run_here(["fleet", "collect", str(FIXTURES / "leader-epochs/logdir")], folder)
    (folder / "one").write_bytes(collected.out)
    assert run_here(["fleet", "plan", "one", "--plan-out", "plan", "-q"], folder).status in (0, 1)
    return rows_of(folder / "one"), rows_of(folder / "plan")


CASES = [(kind, where, value) for kind, changes in HOSTILE.items() for where, value in changes]


@pytest.mark.parametrize(("kind", "where", "value"), CASES)
def test_what_no_disk_has_is_refused(
    made: tuple[Rows, Rows], tmp_path: Path, kind: str, where: str, value: Any
) -> None:
    is_plan = kind in ("choice", "fleet")
    rows = made[is_plan]
    (tmp_path / "file").write_bytes(signed(rows))
    log_dir = str(FIXTURES / "leader-epochs/logdir")
    command = ["apply", "file", log_dir] if is_plan else ["plan", "file", "--plan-out", "plan"]
    assert run_here(["fleet", *command], tmp_path).status in (0, 1)
    (tmp_path / "plan").unlink(missing_ok=True)
    (tmp_path / "file").write_bytes(signed(changed(rows, kind, where, value)))
    done = run_here(["fleet", *command], tmp_path)
    assert (done.status, "not a file of" in done.err) == (3, True), done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize("kind", ["copy", "choice"])
def test_what_is_in_it_twice_is_refused(made: tuple[Rows, Rows], tmp_path: Path, kind: str) -> None:
    rows = made[kind == "choice"]
    again = next(row for row in rows if row["type"] == kind)
    (tmp_path / "file").write_bytes(signed([*rows, again]))
    command = ["plan", "file"] if kind == "copy" else ["apply", "file", str(FIXTURES / "leader-epochs/logdir")]
    done = run_here(["fleet", *command], tmp_path)
    assert (done.status, "twice" in done.err) == (3, True), done.err


def test_too_many_leader_epochs_are_refused(
    made: tuple[Rows, Rows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("klogtool.fleet.framed.MOST_EPOCHS", 2)
    (tmp_path / "file").write_bytes(signed(made[0]))
    done = run_here(["fleet", "plan", "file"], tmp_path)
    assert (done.status, "leader epochs" in done.err) == (3, True), done.err


def many(made: Rows, copies: int) -> bytes:
    """A file with so many copies: half of them of one partition."""
    head, broker = made[:2]
    one = next(row for row in made if row["type"] == "copy")
    rows = []
    for n in range(copies):
        half = {"topic": "t", "partition": 0, "folder": f"t-0.{n:032x}-future", "state": "future"}
        own = {"topic": f"t{n}", "partition": n % 10, "folder": f"t{n}-{n % 10}"}
        rows.append({**one, **(half if n % 2 else own), "log_end_offset": one["log_end_offset"] + n})
    return signed([head, broker, *rows])


@pytest.mark.slow
def test_the_time_grows_with_the_number_of_copies(made: tuple[Rows, Rows], tmp_path: Path) -> None:
    """Twice as many copies take not much more than twice as long."""
    taken = []
    for copies in (2000, 8000):
        lines, tries = many(made[0], copies).splitlines(), []
        for _ in range(3):  # the least of them: other work of the machine only adds
            before = process_time()
            make_fleet_plan([CollectedFiles().parse(lines, "x")])
            tries.append(process_time() - before)
        taken.append(min(tries))
    assert taken[1] < 12 * taken[0], taken
