"""Names in a partition dir: what each means to a broker that starts there."""

from __future__ import annotations

import gzip
import os
import pathlib
import shlex
import subprocess
from collections.abc import Callable

import pytest
from growing_logs import make_segments
from verifying import copy_file, found, ids, rename, run_verify, told

CopyOf = Callable[[str], pathlib.Path]
LOG, INDEX, TIMEINDEX = (f"{36:020d}.{kind}" for kind in ("log", "index", "timeindex"))


@pytest.fixture
def partition(copy_of: CopyOf) -> pathlib.Path:
    return copy_of("transactions/logdir/t-0")


def test_a_name_that_is_no_offset_stops_a_broker(partition: pathlib.Path) -> None:
    names = ["foo.log", "foo.index", "foo.snapshot", "foo.swap", "x.log.swap", "foo.cleaned", "9" * 20 + ".log"]
    for name in names:
        (partition / name).write_bytes(b"")
    assert sorted(told(found(partition))) == sorted(("segment-name", name) for name in names)


def test_a_name_that_is_not_20_digits_is_never_read(partition: pathlib.Path) -> None:
    rename(partition / f"{38:020d}.log", "38.log")
    findings = found(partition)
    assert ("segment-name", "38.log") in told(findings)
    named = next(finding for finding in findings if finding.id == "segment-name")
    assert shlex.split(str(named.cure)) == ["mv", "-n", f"{partition}/38.log", f"{partition}/{38:020d}.log"]


def test_an_offset_below_zero(partition: pathlib.Path) -> None:
    (partition / f"-{5:020d}.log").write_bytes(b"")
    assert told(found(partition)) == [("segment-name", f"-{5:020d}.log")]


@pytest.mark.parametrize("name", ["README.txt", "quorum-state", f"{5:020d}-{1:010d}.checkpoint", f"{5:020d}.log.tmp"])
def test_a_file_that_is_not_a_partitions_is_a_note(partition: pathlib.Path, name: str) -> None:
    (partition / name).write_bytes(b"")
    assert ("foreign-file", name) in told(run_verify(partition)[0])
    assert found(partition) == []


@pytest.mark.parametrize("suffix", [".1", ".bak", ".1.gz"])
def test_what_an_emptied_segment_had(partition: pathlib.Path, suffix: str) -> None:
    """logrotate leaves an empty file and one beside it. Its cure gives every byte back."""
    log = partition / LOG
    before = log.read_bytes()
    beside = log.with_name(LOG + suffix)
    beside.write_bytes(gzip.compress(before) if suffix.endswith(".gz") else before)
    log.write_bytes(b"")
    finding = next(one for one in run_verify(partition)[0] if one.path == str(beside))
    assert (finding.id, finding.loses) == ("foreign-file", suffix != ".1.gz")
    assert finding.severity.value == ("error" if finding.loses else "info")
    subprocess.run(["bash", "-c", str(finding.cure)], check=True)
    assert log.read_bytes() == before


def test_a_file_beside_an_empty_segment_may_be_anothers(partition: pathlib.Path) -> None:
    (partition / LOG).write_bytes(b"")
    beside = partition / f"{LOG}.old"
    for content in (b"", b"notes", (35).to_bytes(8, "big"), (1 << 62).to_bytes(8, "big")):
        beside.write_bytes(content)
        finding = next(one for one in run_verify(partition)[0] if one.path == str(beside))
        assert (finding.cured_by, finding.severity.value) == (None, "info")


def test_a_text_file_that_was_being_written_is_nothing(partition: pathlib.Path) -> None:
    (partition / "leader-epoch-checkpoint.tmp").write_bytes(b"")
    assert run_verify(partition)[0] == run_verify(partition)[0]
    assert "foreign-file" not in ids(run_verify(partition)[0])


def test_indexes_without_their_log(partition: pathlib.Path) -> None:
    (partition / LOG).unlink()
    assert {told_of for told_of in told(found(partition)) if told_of[0] == "orphan-file"} == {
        ("orphan-file", INDEX),
        ("orphan-file", TIMEINDEX),
    }


# ---------------------------------------------------------------- leftovers


def test_what_is_to_be_deleted_is_a_note(partition: pathlib.Path) -> None:
    for name in (LOG, "foo"):
        (partition / f"{name}.deleted").write_bytes(b"")
    assert [t for t in told(run_verify(partition)[0]) if t[0] == "leftover-deleted"] == [
        ("leftover-deleted", f"{LOG}.deleted"),
        ("leftover-deleted", "foo.deleted"),
    ]
    assert found(partition) == []


def details(partition: pathlib.Path, finding_id: str) -> dict[str, str]:
    return {os.path.basename(f.path): f.detail for f in found(partition) if f.id == finding_id}


def test_a_cleaning_that_was_interrupted(partition: pathlib.Path) -> None:
    copy_file(partition / LOG, f"{LOG}.cleaned")
    assert told(found(partition)) == [("leftover-cleaned", f"{LOG}.cleaned")]


def test_a_swap_is_completed(partition: pathlib.Path) -> None:
    for name in (LOG, INDEX, TIMEINDEX):
        copy_file(partition / name, f"{name}.swap")
    told_of = details(partition, "leftover-swap")
    assert "completes the swap" in told_of[f"{LOG}.swap"]
    assert "renames it" in told_of[f"{INDEX}.swap"]
    assert "zeros" not in told_of[f"{LOG}.swap"]


def test_a_swap_without_its_index(partition: pathlib.Path) -> None:
    copy_file(partition / LOG, f"{LOG}.swap")
    assert "zeros" in details(partition, "leftover-swap")[f"{LOG}.swap"]


def test_a_swap_that_has_less_than_what_it_replaces(partition: pathlib.Path) -> None:
    """A start would replace the segment: the offsets that go with it are told, and the cure moves all .swap files."""
    (partition / f"{LOG}.swap").write_bytes(b"")
    copy_file(partition / INDEX, f"{INDEX}.swap")
    first = int(LOG[:20])
    assert f"offsets {first:,} to " in details(partition, "leftover-swap")[f"{LOG}.swap"]
    cures = {finding.cure for finding in found(partition) if finding.id == "leftover-swap"}
    (cure,) = cures
    assert cure is not None
    assert all(f"{name}.swap" in cure for name in (LOG, INDEX))
    copy_file(partition / LOG, f"{first:020d}.log.cleaned")  # then a broker drops the .swap
    assert "would be lost" not in details(partition, "leftover-swap")[f"{LOG}.swap"]


@pytest.mark.parametrize(("base", "outcome"), [(7, "deletes it"), (36, "deletes it"), (38, "completes the swap")])
def test_a_swap_beside_a_cleaned_file(partition: pathlib.Path, base: int, outcome: str) -> None:
    """LogLoader keeps a swap only below the lowest .cleaned."""
    copy_file(partition / LOG, f"{LOG}.swap")
    copy_file(partition / LOG, f"{base:020d}.log.cleaned")
    assert outcome in details(partition, "leftover-swap")[f"{LOG}.swap"]


@pytest.mark.parametrize("suffix", [".cleaned", ".swap"])
def test_what_a_broker_deletes_may_be_all_there_is(partition: pathlib.Path, suffix: str) -> None:
    """The segment itself is gone: its records are only in the file that a start deletes."""
    copy_file(partition / LOG, f"{LOG}{suffix}")
    if suffix == ".swap":
        (partition / f"{LOG}.cleaned").write_bytes(b"")
    finding_id = f"leftover-{suffix[1:]}"
    assert "nowhere else" not in details(partition, finding_id)[f"{LOG}{suffix}"]
    (partition / LOG).unlink()
    assert f"offsets {int(LOG[:20]):,} to " in details(partition, finding_id)[f"{LOG}{suffix}"]
    assert details(partition, finding_id)[f"{LOG}{suffix}"].endswith("are nowhere else")


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned"])
def test_what_a_folder_that_is_deleted_has_alone_is_no_error(partition: pathlib.Path, suffix: str) -> None:
    """All of it goes, which is meant."""
    rename(partition / LOG, f"{LOG}{suffix}")
    rename(partition / INDEX, f"{INDEX}{suffix}")
    assert [os.path.basename(one.path) for one in found(partition) if one.loses] == [f"{LOG}{suffix}"]
    deleted = rename(partition, f"t-0.{'0' * 32}-delete")
    assert found(deleted) == []


def test_cures_of_many_logs_that_are_to_be_deleted_grow_with_their_number(tmp_path: pathlib.Path) -> None:
    sizes = []
    for count in (40, 80):
        folder = make_segments(tmp_path / str(count), count)
        for log in sorted(folder.glob("*.log"))[1::2]:
            rename(log, f"{log.name}.deleted")
        lost = [one for one in found(folder) if one.id == "leftover-deleted"]
        assert len({one.cure for one in lost}) == len(lost) == count // 2
        sizes.append(sum(len(one.cure or "") for one in found(folder)))
    assert sizes[1] < 2.5 * sizes[0]


# ---------------------------------------------------------------- what cannot be read


def test_folders_in_the_place_of_files(partition: pathlib.Path) -> None:
    (partition / LOG).unlink()
    (partition / LOG).mkdir()
    (partition / "leader-epoch-checkpoint").unlink()
    (partition / "leader-epoch-checkpoint").mkdir()
    (partition / "notes").mkdir()
    findings = run_verify(partition)[0]
    assert {("unreadable", LOG), ("unreadable", "leader-epoch-checkpoint"), ("foreign-file", "notes")} <= set(
        told(findings)
    )
    assert "epochs-missing" not in ids(findings)


def test_a_fifo_and_a_link_to_nowhere(partition: pathlib.Path) -> None:
    os.mkfifo(partition / f"{99:020d}.log")
    (partition / f"{98:020d}.log").symlink_to(partition / "nowhere")
    assert set(told(found(partition))) == {("unreadable", f"{99:020d}.log"), ("unreadable", f"{98:020d}.log")}
