"""fleet apply and fleet check: one broker does its share, once; a plan that does not match is refused."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from fleets import collect_broker, make_fleet
from running import Done, run_here, tree_of

from klogtool.cli.show import header
from klogtool.fleet.framed import walk_lines

FLEET = """
metadata cut-0 replicas 1 2 isr 1 2 leader 1
metadata hurt-0 replicas 1 2 isr 1 2 leader 1
metadata stray-0 replicas 1 2 isr 1 2 leader 1
metadata twice-0 replicas 1 2 isr 1 2 leader 1
metadata fine-0 replicas 1 2 isr 1 2 leader 1
broker 1 clean
  cut-0 epochs 0:0 3:40 end 60
  hurt-0 epochs 0:0 end 60
  stray-0 epochs 0:0 end 30
  twice-0 epochs 0:0 end 60
  fine-0 epochs 0:0 end 60
broker 2 clean
  cut-0 epochs 0:0 2:40 end 60 checkpoint 0:0 3:40
  hurt-0 epochs 0:0 end 60 holes 33-33
  stray-0 epochs end 0
  stray-0 epochs 0:0 end 50 state stray
  twice-0 epochs 0:0 end 60
  twice-0 epochs 0:0 end 40 disk d2
  fine-0 epochs 0:0 end 55
"""


class Scene:
    """A fleet on disk, and what klogtool does to it."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.fleet, self.log_dirs = make_fleet(FLEET, root)

    def collect(self) -> list[str]:
        """Collect from all brokers; the files' paths."""
        files = []
        for node_id, log_dirs in self.log_dirs.items():
            found = collect_broker(log_dirs, self.fleet)
            file = self.root / f"broker{node_id}.klog"
            file.write_text("".join(line + "\n" for line in walk_lines(header("fleet collect"), found.rows())))
            files.append(str(file))
        return files

    def plan(self) -> str:
        """Plan, and save the plan."""
        run_here(["fleet", "plan", *self.collect(), "--plan-out", "plan.klog", "-q"], self.root)
        return str(self.root / "plan.klog")

    def apply(self, node_id: int, *more: str) -> Done:
        """Run `fleet apply` on a broker."""
        return run_here(
            ["fleet", "apply", str(self.root / "plan.klog"), *map(str, self.log_dirs[node_id]), *more], self.root
        )

    def check(self) -> Done:
        """Collect again, and run `fleet check`."""
        return run_here(["fleet", "check", *self.collect(), str(self.root / "plan.klog")], self.root)


@pytest.fixture
def scene(tmp_path: pathlib.Path) -> Scene:
    """A fleet with a saved plan."""
    made = Scene(tmp_path)
    made.plan()
    return made


def names(log_dir: pathlib.Path) -> set[str]:
    return {path.name for path in log_dir.iterdir() if path.is_dir()}


def test_without_apply_nothing_changes(scene: Scene) -> None:
    before = tree_of(scene.root)
    done = scene.apply(2)
    assert done.status == 0, done.err
    assert b"to do: cut cut-0 to 40" in done.out
    assert b"Nothing was changed." in done.out
    assert tree_of(scene.root) == before


def test_a_broker_does_its_share(scene: Scene) -> None:
    failed = scene.check()
    assert failed.status == 1
    assert b"cut-0  broker 2: it is not cut at 40" in failed.out
    done = scene.apply(2, "--apply")
    assert done.status == 0, done.err
    held = scene.check()
    assert (held.status, held.out) == (0, b"12 copies as planned, 0 not.\n"), held.out
    d1, d2 = scene.log_dirs[2]
    assert names(d1) == {"cut-0", "hurt-0", "stray-0", "twice-0", "fine-0"}
    assert names(d2) == set()
    assert names(d1.parent / "d1.moved-out") == {"stray-0"}
    assert names(d2.parent / "d2.moved-out") == {"twice-0"}


def test_the_cut_copy_ends_where_it_parts(scene: Scene) -> None:
    scene.apply(2, "--apply")
    found = {copy.folder: copy for copy in collect_broker(scene.log_dirs[2], scene.fleet).copies}
    assert found["cut-0"].log_end_offset == 40
    assert found["hurt-0"].log_end_offset == found["hurt-0"].sound_end_offset == 33
    assert found["stray-0"].log_end_offset == 50
    assert found["cut-0"].recovery_point == 40


def test_a_broker_with_nothing_to_do(scene: Scene) -> None:
    before = tree_of(scene.root / "b1")
    done = scene.apply(1, "--apply")
    assert done.status == 0
    assert "leaves all copies of this broker to the broker itself" in done.err
    assert tree_of(scene.root / "b1") == before


def test_again_it_is_seen_as_done(scene: Scene) -> None:
    scene.apply(2, "--apply")
    before = tree_of(scene.root / "b2")
    again = scene.apply(2, "--apply")
    assert again.status == 0, again.err
    assert again.out.count(b"done already: ") == 5
    assert b"to do: " not in again.out
    assert tree_of(scene.root / "b2") == before


def test_what_was_done_by_half_is_finished(scene: Scene) -> None:
    """As after an error: one cut is done, the rest is not."""
    d1 = scene.log_dirs[2][0]
    run_here(["truncate", str(d1 / "cut-0"), "--to", "40", "--apply", "-q"], scene.root)
    done = scene.apply(2, "--apply")
    assert done.status == 0, done.err
    assert done.out.count(b"done already: ") == 1
    assert scene.check().status == 0


def test_undo_takes_it_back(scene: Scene) -> None:
    before = _bytes(scene.root / "b2")
    scene.apply(2, "--apply")
    rows = [json.loads(line) for line in scene.apply(2, "--format", "json").out.splitlines()]
    assert {row["done"] for row in rows if row["type"] == "share"} == {True}
    undone = run_here(["undo", "--journal", f"{scene.log_dirs[2][0]}.klogtool"], scene.root)
    assert undone.status == 0, undone.err  # in all log dirs
    assert _bytes(scene.root / "b2") == before
    assert scene.apply(2).status == 0


def _bytes(folder: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".klogtool" not in str(path) and path.name != ".lock"
    }


def test_klogtool_apply_takes_the_saved_share(scene: Scene) -> None:
    saved = scene.root / "share.jsonl"
    assert scene.apply(2, "--plan-out", str(saved)).status == 0
    done = run_here(["apply", str(saved)], scene.root)
    assert done.status == 0, done.err
    assert scene.check().status == 0


# Plans that do not match.


def refusal_of(done: Done) -> str:
    assert (done.status, done.out) == (3, b""), done.out
    return done.err


def test_a_plan_of_another_broker(scene: Scene) -> None:
    properties = scene.log_dirs[1][0] / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=7"))
    assert "it is of broker 7, the plan is about brokers 1, 2" in refusal_of(scene.apply(1, "--apply"))


def test_a_plan_of_another_cluster(scene: Scene) -> None:
    properties = scene.log_dirs[2][0] / "meta.properties"
    properties.write_text(properties.read_text().replace("cluster.id=fleet", "cluster.id=other"))
    assert "it is of cluster other, the plan is about cluster fleet" in refusal_of(scene.apply(2, "--apply"))


def test_a_log_dir_is_not_named(scene: Scene) -> None:
    scene.log_dirs[2].pop()
    assert "name all its log dirs" in refusal_of(scene.apply(2, "--apply"))


@pytest.mark.parametrize("folder", ["cut-0", "fine-0"])
def test_a_copy_was_changed(scene: Scene, folder: str) -> None:
    """Also one that is left to the broker: the plan relies on it."""
    with (scene.log_dirs[2][0] / folder / f"{0:020d}.log").open("ab") as log:
        log.write(b"x")
    before = tree_of(scene.root / "b2")
    assert f"{folder}: changed since it was collected" in refusal_of(scene.apply(2, "--apply"))
    assert tree_of(scene.root / "b2") == before


def test_a_copy_is_gone(scene: Scene) -> None:
    shutil.rmtree(scene.log_dirs[2][0] / "hurt-0")
    assert "hurt-0: changed since it was collected" in refusal_of(scene.apply(2, "--apply"))


def test_log_dirs_that_were_moved_are_found_by_their_ids(scene: Scene) -> None:
    moved = [shutil.move(log_dir, scene.root / f"new {log_dir.name}") for log_dir in scene.log_dirs[2]]
    scene.log_dirs[2] = [pathlib.Path(path) for path in moved]
    done = scene.apply(2, "--apply")
    assert done.status == 0, done.err
    assert scene.check().status == 0


def test_a_plan_that_is_cut_short(scene: Scene) -> None:
    plan = scene.root / "plan.klog"
    plan.write_bytes(plan.read_bytes()[:-100])
    assert "not a file of 'fleet plan'" in refusal_of(scene.apply(2, "--apply"))


def test_check_names_a_missing_broker(scene: Scene) -> None:
    scene.apply(2, "--apply")
    files = scene.collect()
    done = run_here(["fleet", "check", files[0], str(scene.root / "plan.klog")], scene.root)
    assert done.status == 1
    assert b"no file of broker 2 was given" in done.out


def test_check_as_json(scene: Scene) -> None:
    files = scene.collect()
    done = run_here(["fleet", "check", *files, str(scene.root / "plan.klog"), "--format", "json"], scene.root)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["type"] for row in rows] == ["klogtool", *["checked"] * 12, "summary"]
    assert {row["folder"] for row in rows[1:-1] if not row["holds"]} >= {"cut-0", "hurt-0"}
