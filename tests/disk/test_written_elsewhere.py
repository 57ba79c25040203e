"""--output: what the result is, where it may be, and that the source is only read."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from made import contents, make_log_dir, make_plan, make_plans, picture, what_becomes

from klogtool.broker.content import FileRange
from klogtool.disk.disk import Disk
from klogtool.disk.output import carry_out_to
from klogtool.errors import KlogError, Refused, StalePlan
from klogtool.plans.plan import Step, Truncate, Write

INDEX_BYTES = 10 << 20


@pytest.fixture
def log_dir(box: pathlib.Path) -> pathlib.Path:
    return make_log_dir(box)


def test_the_steps_make_of_it_what_they_say(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before, old = picture(log_dir), contents(log_dir)
    new = what_becomes(log_dir, tmp_path)
    log = old["t-0/00000000000000000000.log"]
    assert picture(log_dir) == before
    assert new["t-0/00000000000000000000.log"] == log[:8000]
    assert new["t-0/00000000000000000000.index"] == b"new index" + bytes(5000)
    assert new["t-0/00000000000000000000.txnindex"] == log[10:20] + b"and" + log[8500:9000]
    assert new["t-0/00000000000000000009.log"] == old["t-0/00000000000000000009.log.swap"]
    assert new["t-0/00000000000000000009.log.deleted"] == old["t-0/00000000000000000009.log"]
    assert new["t-0/00000000000000000020.log.deleted"] == old["t-0/00000000000000000020.log"][:100]
    assert new["t-0/00000000000000000030.log"] == b""
    assert new["t-1/00000000000000000000.index"] == b"i"
    assert new[".kafka_cleanshutdown"] == b"{}"
    assert new["meta.properties"] == old["meta.properties"]
    assert "t-0/00000000000000000020.index" not in new
    assert "t-0/00000000000000000009.log.swap" not in new


def test_times_modes_and_owners_are_kept(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    what_becomes(log_dir, tmp_path)
    old, new = picture(log_dir), picture(tmp_path / "wanted")
    assert new["meta.properties"] == old["meta.properties"]
    assert new["t-0/00000000000000000009.log"][:4] == old["t-0/00000000000000000009.log.swap"][:4]
    assert new["t-0/00000000000000000000.timeindex"][3] == 1_600_000_000_000_000_000
    assert new["t-0/00000000000000000000.index"][:3] == old["t-0/00000000000000000000.index"][:3]
    assert new["t-0/00000000000000000000.txnindex"][:3] == old["t-0/00000000000000000000.index"][:3], "as the first"
    assert new["t-0/00000000000000000000.log"][3] != old["t-0/00000000000000000000.log"][3]


def test_what_is_unchanged_is_the_same_to_the_time_of_folders(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    carry_out_to([], str(log_dir), str(box / "out"))
    assert picture(box / "out") == picture(log_dir)
    inodes = {p.stat().st_ino for p in log_dir.rglob("*")}
    assert not inodes & {p.stat().st_ino for p in (box / "out").rglob("*")}, "a hard link"


def test_a_partition_dir_of_a_partition_dir(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    carry_out_to(make_plans(log_dir)[:1], str(log_dir / "t-0"), str(box / "t-0"))
    carry_out_to(make_plans(log_dir), str(log_dir), str(box / "whole"))
    assert contents(box / "t-0") == contents(box / "whole" / "t-0")


def test_an_empty_folder_is_replaced_and_one_of_its_own_log_dir_is_fine(log_dir: pathlib.Path) -> None:
    (log_dir / "t-7").mkdir()
    carry_out_to(make_plans(log_dir)[:1][:0], str(log_dir / "t-0"), str(log_dir / "t-7"))
    assert contents(log_dir / "t-7") == contents(log_dir / "t-0")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("kafka", "inside its source, or contain it"),
        ("kafka/t-0", "inside its source, or contain it"),
        ("kafka/t-0/out", "inside its source, or contain it"),
        ("", "inside its source, or contain it"),
        ("full", "the output folder is not empty"),
        ("file", "not a directory"),
        ("other/t-5/out", "inside a partition dir"),
        ("other/out", "refuses to start"),
    ],
)
def test_where_no_result_may_be(log_dir: pathlib.Path, box: pathlib.Path, place: str, why: str) -> None:
    for path in ("full/x", "file", "other/meta.properties", "other/t-5/x"):
        (box / path).parent.mkdir(parents=True, exist_ok=True)
        (box / path).write_bytes(b"")
    before = picture(box)
    with pytest.raises(Refused, match=why):
        carry_out_to(make_plans(log_dir), str(log_dir), str(box / place))
    assert picture(box) == before


def test_where_no_result_can_be(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    with pytest.raises(KlogError, match="no such folder"):
        carry_out_to([], str(log_dir), str(box / "no" / "out"))


def test_a_source_that_changes_meanwhile_has_no_result(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    class Meanwhile(Disk):
        def sync_dir(self, path: str) -> None:
            with (log_dir / "t-1" / "00000000000000000000.log").open("ab") as file:
                file.write(b"appended")

    with pytest.raises(StalePlan):
        carry_out_to(make_plans(log_dir)[:1], str(log_dir), str(box / "out"), disk=Meanwhile())
    assert os.listdir(box) == ["kafka"]


def test_further_folders_come_with_it(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    log = str(log_dir / "t-0" / "00000000000000000000.log")
    beside = {str(box / "rejected"): {"manifest.json": (b"{}",), "piece": (FileRange(log, 5, 10),)}}
    carry_out_to([], str(log_dir), str(box / "out"), beside=beside)
    assert contents(box / "rejected") == {"manifest.json": b"{}", "piece": pathlib.Path(log).read_bytes()[5:10]}
    with pytest.raises(Refused, match="not empty"):
        carry_out_to([], str(log_dir), str(box / "out2"), beside=beside)
    assert not (box / "out2").exists()


def test_holes_stay_holes(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    """The index of an active segment has 10 MiB, nearly all of it never written."""
    index = log_dir / "t-1" / "00000000000000000000.index"
    with index.open("r+b") as file:
        file.truncate(INDEX_BYTES)
        file.seek(5 << 20)
        file.write(b"in the middle")
    steps: list[Step] = [
        Write("a", (b"head", bytes(INDEX_BYTES))),
        Write("b", (FileRange(str(index), 10, INDEX_BYTES), b"tail")),
    ]
    carry_out_to([make_plan(log_dir / "t-1", steps)], str(log_dir), str(box / "out"))
    out = box / "out" / "t-1"
    data = index.read_bytes()
    assert (out / index.name).read_bytes() == data
    assert (out / "a").read_bytes() == b"head" + bytes(INDEX_BYTES)
    assert (out / "b").read_bytes() == data[10:] + b"tail"
    assert sum(p.stat().st_blocks * 512 for p in out.iterdir()) < INDEX_BYTES


def test_copies_without_the_help_of_the_system(
    log_dir: pathlib.Path, box: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "function not implemented")

    large = log_dir / "t-1" / "00000000000000000009.log"
    large.write_bytes(os.urandom(3 << 20))
    monkeypatch.setattr(os, "copy_file_range", refuse)
    carry_out_to([], str(log_dir), str(box / "out"))
    assert contents(box / "out") == contents(log_dir)


def test_a_file_that_becomes_shorter_under_our_hands(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    log = log_dir / "t-1" / "00000000000000000000.log"
    steps = [Write("a", (FileRange(str(log), 4000, 4097),))]
    with pytest.raises(KlogError, match="shorter") as shorter:
        carry_out_to([make_plan(log_dir / "t-1", steps)], str(log_dir), str(box / "out"))
    assert (shorter.value.path, shorter.value.position) == (str(log), 4096)
    assert os.listdir(box) == ["kafka"]


def test_links_are_what_they_lead_to_and_what_is_no_file_is_left_out(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    (box / "aside.log").write_bytes(b"aside")
    (log_dir / "t-1" / "00000000000000000009.log").symlink_to(box / "aside.log")
    (log_dir / "t-1" / "nowhere").symlink_to(box / "nothing")
    (log_dir / "t-1" / "folder").mkdir()
    os.mkfifo(log_dir / "t-1" / "fifo")
    carry_out_to(
        [make_plan(log_dir / "t-1", [Truncate("00000000000000000009.log", 2)])], str(log_dir), str(box / "out")
    )
    found = box / "out" / "t-1"
    assert (found / "00000000000000000009.log").read_bytes() == b"as"
    assert not (found / "00000000000000000009.log").is_symlink()
    assert (found / "folder").is_dir()
    assert not (found / "fifo").exists()
    assert (box / "aside.log").read_bytes() == b"aside"
    (log_dir / "t-1" / "round").symlink_to(log_dir)
    with pytest.raises(Refused, match="link leads to a folder that contains it"):
        carry_out_to([], str(log_dir), str(box / "out2"))


def test_written_means_read_again(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    class Liar(Disk):
        def sync(self, path: str) -> None:
            if path.endswith("00000000000000000000.txnindex"):
                data = pathlib.Path(path).read_bytes()
                pathlib.Path(path).write_bytes(data[:20] + b"\0" + data[21:])

    with pytest.raises(OSError, match="reading back from byte 0 gives other bytes than were written"):
        carry_out_to(make_plans(log_dir), str(log_dir), str(box / "out"), disk=Liar())
    assert os.listdir(box) == ["kafka"]


def test_the_passing_name_is_one_that_a_broker_removes(log_dir: pathlib.Path, box: pathlib.Path) -> None:
    names: list[str] = []

    class Watching(Disk):
        def mkdir(self, path: str) -> None:
            names.append(os.path.relpath(path, box))
            super().mkdir(path)

    carry_out_to([], str(log_dir / "t-0"), str(log_dir / "t-5"), disk=Watching())
    shutil.rmtree(log_dir / "t-5")
    carry_out_to([], str(log_dir), str(box / "out"), disk=Watching())
    assert [
        name.replace(name.split(".")[1][:32], "<hex>") for name in names if "/t-" not in name or "kafka" in name
    ] == [
        "kafka/t-5.<hex>-delete",
        "out.<hex>.part",
    ]
