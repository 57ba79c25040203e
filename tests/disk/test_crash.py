"""Death at every call, with and without the loss of what was not synced: nothing is lost, undo and resume work."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest
from made import HEAD, add_foreign_folder, contents, make_log_dir, make_moving_plans, make_plans, picture, what_becomes
from mortal import Attics, Died, HastyDisk, MortalDisk

from klogtool.disk.disk import Disk
from klogtool.disk.journal import Entry, walk_entries
from klogtool.disk.writer import InPlace, resume, undo

BESIDE, ELSEWHERE, BACKED_UP = "beside", "elsewhere", "backed up"
every_loss = pytest.mark.parametrize(
    ("where", "loses"),
    [
        *((BESIDE, loses) for loses in ("nothing", "everything", "mixed 1", "mixed 2")),
        *((ELSEWHERE, loses) for loses in ("everything", "mixed 1")),
        (BACKED_UP, "everything"),
    ],
)
every_kind = pytest.mark.parametrize("moves", [False, True], ids=["files", "folders"])


class Life:
    """One try: a box with a log dir in it, and a journal beside it or elsewhere. moves: folders are renamed, too."""

    def __init__(self, box: pathlib.Path, journal: pathlib.Path | None, *, moves: bool) -> None:
        self.box, self.elsewhere, self.moves = box, journal, moves
        for folder in filter(None, [box, journal]):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self.log_dir = make_log_dir(box)
        if moves:
            add_foreign_folder(self.log_dir)
        self.journal = journal or box / "kafka.klogtool"

    def apply(self, disk: Disk) -> None:
        journal = None if self.elsewhere is None else str(self.elsewhere)
        plans = make_moving_plans(self.log_dir) if self.moves else make_plans(self.log_dir)
        InPlace(plans, HEAD, journal=journal, disk=disk).carry_out()

    def contents(self) -> dict[str, bytes]:
        """Files of the log dir and of the folder beside it, by their paths from the log dir, and their bytes."""
        beside = self.box / "kafka.moved-out"
        found = {f"../{beside.name}/{name}": data for name, data in contents(beside).items()}
        return {name: data for name, data in contents(self.log_dir).items() if name != ".lock"} | found

    def entry(self) -> Entry | None:
        found = list(walk_entries(str(self.journal))) if self.journal.is_dir() else []
        assert len(found) <= 1
        return found[0] if found else None

    def dies(self, work: Callable[[Disk], object], after: int, loses: str) -> bool:
        """Whether it did, doing this, so early."""
        disk = MortalDisk([folder for folder in (self.box, self.elsewhere) if folder is not None], after)
        try:
            work(disk)
        except Died:
            disk.crash(loses)
            return True
        return False


@pytest.fixture
def journal(request: pytest.FixtureRequest, where: str) -> pathlib.Path | None:
    return pathlib.Path(request.getfixturevalue("elsewhere")) / "journal" if where == ELSEWHERE else None


@pytest.fixture(autouse=True)
def _backed_up(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file has a second name, which is somebody else's: then none is cut in place."""
    monkeypatch.setattr(Attics, "are_ours", where != BACKED_UP)


@pytest.fixture
def lives(box: pathlib.Path, journal: pathlib.Path | None, moves: bool) -> Callable[[], Iterator[tuple[int, Life]]]:
    """As many as there are calls to die after, and one more."""

    def live() -> Iterator[tuple[int, Life]]:
        n = 0
        while True:
            life = Life(box, journal, moves=moves)
            yield n, life
            n += 1

    return live


def check_original(life: Life, before: dict[str, tuple[object, ...]], n: int) -> None:
    found = picture(life.log_dir)
    found.pop(".lock", None)  # a kill before the journal knows of it leaves it, as a broker does
    assert {name for name in before | found if before.get(name) != found.get(name)} - {"."} == set(), n
    assert life.entry() is None
    assert not (life.box / "kafka.moved-out").exists()
    assert not life.journal.is_dir() or list(life.journal.iterdir()) in ([], [life.journal / ".lock"])


@pytest.mark.slow
@every_kind
@every_loss
def test_undo_restores_all_whenever_it_died(lives: Callable[[], Iterator[tuple[int, Life]]], loses: str) -> None:
    for n, life in lives():
        before = picture(life.log_dir)
        died = life.dies(life.apply, n, loses)
        entry = life.entry()
        if entry is not None:
            undo(entry, disk=HastyDisk())
        check_original(life, before, n)
        if not died:
            assert n > 60
            return


@pytest.mark.slow
@every_kind
@every_loss
def test_resume_finishes_whenever_it_died(
    lives: Callable[[], Iterator[tuple[int, Life]]], loses: str, tmp_path: pathlib.Path
) -> None:
    wanted: dict[str, bytes] = {}
    for n, life in lives():
        wanted = wanted or what_becomes(life.log_dir, tmp_path, moves=life.moves)
        before = life.contents()
        died = life.dies(life.apply, n, loses)
        entry = life.entry()
        if died and entry is not None and not entry.is_torn() and entry.progress().name != "DONE":
            entry = resume(entry, disk=HastyDisk())
        after = life.contents()
        assert after in (wanted, before), n
        assert (after == wanted) == (entry is not None and not entry.is_torn()), n
        if not died:
            return


@pytest.mark.slow
@every_kind
@every_loss
def test_an_undo_that_died_can_be_run_again(lives: Callable[[], Iterator[tuple[int, Life]]], loses: str) -> None:
    for n, life in lives():
        before = picture(life.log_dir)
        life.apply(HastyDisk())
        entry = life.entry()
        assert entry is not None
        died = life.dies(lambda disk, entry=entry: undo(entry, disk=disk), n, loses)
        if (left := life.entry()) is not None:
            undo(left, disk=HastyDisk())
        check_original(life, before, n)
        if not died:
            assert n > 20
            return


@pytest.mark.slow
@pytest.mark.parametrize(("where", "loses"), [(BESIDE, "everything"), (BESIDE, "mixed 3")])
@pytest.mark.parametrize(
    ("moves", "first"), [*((False, n) for n in (40, 70, 76, 82)), *((True, n) for n in (40, 90, 94, 97, 100))]
)
def test_a_resumed_run_that_died_can_be_resumed_or_undone(
    lives: Callable[[], Iterator[tuple[int, Life]]], first: int, loses: str, tmp_path: pathlib.Path
) -> None:
    wanted: dict[str, bytes] = {}
    for n, life in lives():
        wanted = wanted or what_becomes(life.log_dir, tmp_path, moves=life.moves)
        before = picture(life.log_dir)
        assert life.dies(life.apply, first, loses)
        entry = life.entry()
        assert entry is not None
        died = life.dies(lambda disk, entry=entry: resume(entry, disk=disk), n, loses)
        entry = life.entry()
        if died and entry is not None and not entry.is_torn() and entry.progress().name != "DONE":
            entry = resume(entry, disk=HastyDisk())
        assert entry is None or entry.is_torn() or life.contents() == wanted, n
        if entry is not None:
            undo(entry, disk=HastyDisk())
        check_original(life, before, n)
        if not died:
            assert n > 5
            return
