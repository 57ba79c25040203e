"""What is rewritten waits on the device: the plan is the same, its bytes are put in place by renames, nothing stays."""

from __future__ import annotations

import errno
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from deciding import decided
from dying import NAME, stopped_log_dir
from made import HEAD, contents, picture
from mortal import Died, HastyDisk, MortalDisk, reusable
from test_compact_dies import CASES, CONFIG, NOW_MS

from klogtool.broker.content import Content, FileRange, Spooled, content_size, read_content
from klogtool.broker.spools import CountingSpool, MakeSpool
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.content_writer import SMALLEST_PIECE_BYTES, ContentWriter
from klogtool.disk.attributes import attributes_of
from klogtool.disk.disk import Disk
from klogtool.disk.journal import spools_in
from klogtool.disk.output import carry_out_to, spools_beside
from klogtool.disk.spooling import SpoolFolder, put_content
from klogtool.disk.writer import InPlace, undo
from klogtool.plans.plan import Plan
from klogtool.render.words import words

OLD = os.urandom(3 * SMALLEST_PIECE_BYTES)


def plans_of(case: str, log_dir: pathlib.Path, make_spool: MakeSpool | None = None) -> list[Plan]:
    asked = {"now_ms": NOW_MS, "jobs": 1, **CASES[case]}
    asked["config"] = CONFIG | asked.get("config", {})
    return list(decided("compact", log_dir / NAME, asked, make_spool))


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return stopped_log_dir(box)


def in_journal(log_dir: pathlib.Path, disk: Disk) -> SpoolFolder:
    return spools_in(disk, f"{log_dir}.klogtool", str(log_dir))


@pytest.mark.parametrize("case", CASES)
def test_a_plan_is_the_same_wherever_its_bytes_are(log_dir: pathlib.Path, case: str) -> None:
    before, whole = picture(log_dir), plans_of(case, log_dir)
    told = plans_of(case, log_dir, CountingSpool)
    with in_journal(log_dir, Disk()) as spools:
        spooled = plans_of(case, log_dir, spools.make_spool)
        assert [plan.is_whole for plan in spooled] == [True] * len(spooled)
        assert any(isinstance(part, Spooled) for plan in spooled for part in parts_of(plan))
    assert [p.as_row(words) for p in whole] == [p.as_row(words) for p in told] == [p.as_row(words) for p in spooled]
    assert not all(plan.is_whole for plan in told)
    assert picture(log_dir) == before
    assert os.listdir(log_dir.parent) == ["logdir"]


def parts_of(plan: Plan) -> list[object]:
    return [part for step in plan.steps for part in getattr(step, "content", ())]


@pytest.mark.parametrize("case", CASES)
def test_what_comes_of_it_is_the_same(log_dir: pathlib.Path, box: pathlib.Path, case: str) -> None:
    before = picture(log_dir)
    for name, make in {"whole": None, "told": CountingSpool}.items():
        made = [reusable(plan) for plan in plans_of(case, log_dir, make)]
        assert (made[0].plan is None) == (name == "told"), "to be decided again"
        carry_out_to(made, str(log_dir / NAME), str(box / name), disk=HastyDisk())
    with spools_beside(str(box / "spooled"), HastyDisk()) as spools:
        made = list(map(reusable, plans_of(case, log_dir, spools.make_spool)))
        carry_out_to(made, str(log_dir / NAME), str(box / "spooled"), disk=HastyDisk())
    assert contents(box / "whole") == contents(box / "told") == contents(box / "spooled")
    assert sorted(os.listdir(box)) == ["logdir", "spooled", "told", "whole"]
    with in_journal(log_dir, HastyDisk()) as spools:
        run = InPlace(list(map(reusable, plans_of(case, log_dir, spools.make_spool))), HEAD, disk=HastyDisk())
        run.carry_out()
    assert contents(log_dir / NAME) == contents(box / "whole")
    undo(run.entries[0], disk=HastyDisk())
    assert picture(log_dir) == before
    assert sorted(os.listdir(box)) == ["logdir", "spooled", "told", "whole"]


def test_killed_while_it_is_decided(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    """The log dir is as it was, and the next run takes away what was left."""
    before = picture(log_dir)
    for n in range(100):
        died = False
        try:
            with in_journal(log_dir, disk := MortalDisk([box], n)) as spools:
                plans_of("several segments", log_dir, spools.make_spool)
        except Died:
            died = True
            disk.crash("nothing")
        assert picture(log_dir) == before
        with in_journal(log_dir, HastyDisk()) as spools:
            plans_of("several segments", log_dir, spools.make_spool)
        assert os.listdir(box) == ["logdir"], n
        if not died:
            break
    assert n > 5


@pytest.mark.slow
def test_many_begin_and_end_at_once(box: pathlib.Path) -> None:
    """Each may find the others' folders before they are locked, and the journal empty before they are in it."""
    log_dir, journal = stopped_log_dir(box), str(box / "its.klogtool")

    def work(_: int) -> bytes:
        with spools_in(Disk(), journal, str(log_dir)) as spools:
            spool = spools.make_spool()
            spool.write(b"some")
            return read_content((spool.end_part(),))

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(work, range(400))) == {b"some"}
    assert not os.path.exists(journal)


def test_what_somebody_works_with_is_left_alone(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    with in_journal(log_dir, Disk()) as first:
        plans = plans_of("purged", log_dir, first.make_spool)
        with in_journal(log_dir, Disk()) as second:
            plans_of("purged", log_dir, second.make_spool)
        InPlace(list(map(reusable, plans)), HEAD, disk=HastyDisk()).carry_out()


def made_of(box: pathlib.Path, spools: SpoolFolder) -> tuple[Content, bytes]:
    """New bytes between pieces of another file."""
    (box / "old").write_bytes(OLD)
    writer = ContentWriter(spools.make_spool())
    with ContentFile("old", (FileRange(str(box / "old"), 0, len(OLD)),)) as old:
        writer.copy(old, 0, SMALLEST_PIECE_BYTES)
        writer.write(b"new")
        writer.copy(old, 100, SMALLEST_PIECE_BYTES)
        writer.copy(old, SMALLEST_PIECE_BYTES, len(OLD))
        content = writer.content()
    head, middle = OLD[:SMALLEST_PIECE_BYTES], OLD[100:SMALLEST_PIECE_BYTES]
    return content, head + b"new" + middle + OLD[SMALLEST_PIECE_BYTES:]


def test_pieces_of_other_files_come_when_it_is_put_in_place(box: pathlib.Path) -> None:
    with SpoolFolder(str(box / "spools"), Disk()) as spools:
        content, wanted = made_of(box, spools)
        assert [type(part) for part in content] == [FileRange, Spooled, FileRange]
        (waiting,) = (box / "spools").iterdir()
        inode = waiting.stat().st_ino
        put_content(Disk(), str(box / "new"), content, attributes_of(str(box / "old")))
    assert (box / "new").read_bytes() == wanted
    assert (box / "new").stat().st_ino == inode, "renamed"
    assert sorted(os.listdir(box)) == ["new", "old"]


def test_on_another_file_system_it_is_copied(box: pathlib.Path, elsewhere: pathlib.Path) -> None:
    with SpoolFolder(str(box / "spools"), Disk()) as spools:
        content, wanted = made_of(box, spools)
        put_content(Disk(), str(elsewhere / "new"), content, attributes_of(str(box / "old")))
    assert (elsewhere / "new").read_bytes() == wanted


@pytest.mark.parametrize("at", [0, SMALLEST_PIECE_BYTES + 1, -1])
def test_what_does_not_read_as_it_was_made_is_an_error(box: pathlib.Path, at: int) -> None:
    class Careless(Disk):
        def sync(self, path: str) -> None:
            data = bytearray(pathlib.Path(path).read_bytes())
            data[at] ^= 1
            pathlib.Path(path).write_bytes(data)

    with SpoolFolder(str(box / "spools"), Disk()) as spools:
        content, wanted = made_of(box, spools)
        assert content_size(content) == len(wanted)
        with pytest.raises(OSError, match="gives other bytes than were written") as raised:
            put_content(Careless(), str(box / "new"), content, attributes_of(str(box / "old")))
    assert raised.value.errno == errno.EIO
