"""free: what is taken, in which order, how many bytes count, and that what is left loads as before."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import pytest
from bad_input import writable_copy
from hypothesis import given
from hypothesis import strategies as st
from running import Done, run_here

from klogtool.broker.cluster_config import AS_GIVEN, BY_CLUSTER, BY_FILE
from klogtool.broker.file_facts import Fact
from klogtool.plans.fields import WrongField, read_as
from klogtool.plans.free_choice import Candidate, FreeChoice, FreedBytes, Name, choose
from klogtool.plans.free_kinds import CLEANED, DELETED, KINDS, NAMES, REMOTE, STRAY
from klogtool.plans.guessed_settings import KnownSettings
from klogtool.plans.plan import Discard
from klogtool.plans.saved_plan import check_step

NOW = ["--now", "2026-11-22", "--config", "retention.ms=604800000"]  # nothing goes by a default
EPOCHS = "leader-epoch-checkpoint"
ID = "0123456789abcdef0123456789abcdef"


def free(log_dirs: Sequence[pathlib.Path], *words: str) -> list[dict[str, Any]]:
    """The answers, one for each log dir."""
    done = run_here(["free", *map(str, log_dirs), *NOW, *words, "--format", "json"], log_dirs[0].parent)
    assert done.status in (0, 1), done.err
    return [row["answer"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]


def run(*words: object) -> Done:
    return run_here([str(word) for word in words], pathlib.Path("/"))


def names_of(answer: dict[str, Any], log_dir: pathlib.Path) -> list[str]:
    return [os.path.relpath(item["path"], log_dir) for item in answer["items"]]


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir with one of everything."""
    log_dir = writable_copy("retention/logdir", tmp_path / "logs")
    shutil.copytree(log_dir / "time-0", log_dir / f"gone-0.{ID}-stray")
    (log_dir / "inside-0" / f"{34:020d}.log.cleaned").write_bytes(bytes(5000))
    (log_dir / "time-0" / f"{999:020d}.timeindex").write_bytes(bytes(120))
    return log_dir


def test_the_safest_first(log_dir: pathlib.Path) -> None:
    (answer,) = free([log_dir])
    assert [row["kind"] for row in answer["kinds"]] == [name for name in NAMES if name != REMOTE.name]
    order = [NAMES.index(item["kind"]) for item in answer["items"]]
    assert order == sorted(order)
    found = {item["kind"] for item in answer["items"]}
    assert found == {"deleted", "delete-folder", "cleaned", "retention", "orphaned", "stray"}
    loses = [item["loses"] for item in answer["items"]]
    assert loses == sorted(loses)
    assert all(("LOSES" in item["costs"]) == item["loses"] for item in answer["items"])
    assert answer["freed_bytes"] == sum(item["bytes"] for item in answer["items"])


def test_no_more_than_needed(log_dir: pathlib.Path) -> None:
    (whole,) = free([log_dir])
    for asked in (1, 4096, 4097, 90_000, 150_000, whole["freed_bytes"]):
        (answer,) = free([log_dir], "--bytes", str(asked))
        assert answer["reached"]
        assert answer["freed_bytes"] >= asked
        last = answer["items"][-1]["kind"]
        for row in answer["kinds"]:
            assert row["kind"] == last or row["taken"] == row["found"], row
        if last != "retention":
            least = min(item["bytes"] for item in answer["items"] if item["kind"] == last)
            assert answer["freed_bytes"] - least < asked


def test_what_cannot_be_reached_is_said(log_dir: pathlib.Path) -> None:
    (whole,) = free([log_dir])
    done = run_here(["free", str(log_dir), *NOW, "--bytes", "1TiB"], log_dir)
    assert done.status == 1
    assert b"NOT ENOUGH" in done.out
    (answer,) = free([log_dir], "--bytes", "1TiB")
    assert (answer["reached"], answer["freed_bytes"]) == (False, whole["freed_bytes"])


@pytest.mark.parametrize("kind", [name for name in NAMES if name != REMOTE.name])
def test_kinds_are_chosen(log_dir: pathlib.Path, kind: str) -> None:
    (only,), (others,) = free([log_dir], "--only", kind), free([log_dir], "--except", kind)
    assert {item["kind"] for item in only["items"]} <= {kind}
    assert {item["kind"] for item in others["items"]} == {item["kind"] for item in free([log_dir])[0]["items"]} - {kind}


def test_a_file_with_another_name_frees_nothing(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A backup by hard links keeps the blocks; two names that both go free them once."""
    (before,) = free([log_dir], "--only", "deleted")
    first, second = (pathlib.Path(item["path"]) for item in before["items"][:2])
    os.link(first, tmp_path / "backup")
    os.link(second, second.with_name("other.log.deleted"))
    (answer,) = free([log_dir], "--only", "deleted")
    assert answer["freed_bytes"] == before["freed_bytes"] - before["items"][0]["bytes"]
    taken = {item["path"]: item["bytes"] for item in answer["items"]}
    assert str(first) not in taken
    assert sorted([taken[str(second)], taken[str(second.with_name("other.log.deleted"))]]) == [0, 4096]


def test_allocated_bytes_count(log_dir: pathlib.Path) -> None:
    sparse, preallocated = (log_dir / "inside-0" / f"{n:020d}.index.deleted" for n in (1, 2))
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    with preallocated.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 20)
    (answer,) = free([log_dir], "--only", "deleted")
    bytes_by_path = {item["path"]: item["bytes"] for item in answer["items"]}
    assert str(sparse) not in bytes_by_path
    assert bytes_by_path[str(preallocated)] == 1 << 20


def test_an_interrupted_swap_is_left_alone(log_dir: pathlib.Path) -> None:
    """A start judges .swap files by the .cleaned files beside them."""
    (log_dir / "inside-0" / f"{34:020d}.log.swap").write_bytes(b"")
    (answer,) = free([log_dir])
    assert not [item for item in answer["items"] if "inside-0" in item["path"]]
    assert [row["path"] for row in answer["left_out"] if "interrupted" in row["why"]] == [str(log_dir / "inside-0")]


def test_what_a_run_of_klogtool_needs_stays(log_dir: pathlib.Path) -> None:
    for name in ("a.log.0123456789ab-1.0.2.deleted", "a.log.0123456789ab-12.undo.deleted"):
        (log_dir / "inside-0" / name).write_bytes(bytes(5000))
    (answer,) = free([log_dir], "--only", "deleted")
    assert not [name for name in names_of(answer, log_dir) if "inside-0" in name]


def test_snapshots_of_metadata_and_the_newest_segment_stay(log_dir: pathlib.Path) -> None:
    (log_dir / "inside-0" / f"{5:020d}-{1:010d}.checkpoint.deleted").write_bytes(bytes(5000))
    (answer,) = free([log_dir], "--config", "retention.ms=1")
    assert not [item for item in answer["items"] if item["path"].endswith(".checkpoint.deleted")]
    for partition in ("inside-0", "size-0", "start-0"):
        taken = {item["path"] for item in answer["items"] if item["kind"] == "retention"}
        left = [path for path in (log_dir / partition).glob("*.log") if str(path) not in taken]
        assert left
        assert min(map(str, left)) == sorted(map(str, (log_dir / partition).glob("*.log")))[-1]


def test_a_guess_deletes_nothing(tmp_path: pathlib.Path) -> None:
    log_dir = writable_copy("tiered/logdir", tmp_path / "logs")
    (answer,) = free([log_dir])
    assert not answer["items"]
    assert any("is a guess" in row["why"] for row in answer["left_out"])


def test_links_are_left_alone(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shutil.move(log_dir / "size-0", tmp_path / "size-0")
    (log_dir / "size-0").symlink_to(tmp_path / "size-0")
    (tmp_path / "other").write_bytes(bytes(9000))
    (log_dir / "inside-0" / "x.deleted").symlink_to(tmp_path / "other")
    (log_dir / "inside-0" / "y.deleted").mkdir()
    (answer,) = free([log_dir])
    assert not [name for name in names_of(answer, log_dir) if "size-0" in name or "/x.deleted" in name]


def test_names_of_all_kinds(log_dir: pathlib.Path) -> None:
    odd = [b"with blank.deleted", b"\xc3\xa9\n\x1b[31m.deleted"]
    unseen = b"\xff\xfe\x1b[31m.deleted"  # a broker does not find it, so it does not delete it
    for name in (*odd, unseen):
        path = os.fsencode(log_dir / "inside-0") + b"/" + name
        with open(path, "wb") as file:
            file.write(bytes(5000))
    done = run_here(["free", str(log_dir), *NOW, "--bytes", "1TiB", "--apply", "--no-undo"], log_dir)
    assert (done.status, b"\x1b" in done.out) == (1, False)
    left = [name for name in os.listdir(os.fsencode(log_dir / "inside-0")) if name.endswith(b".deleted")]
    assert left == [unseen]


def test_log_dirs_on_one_disk_count_together(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """The .deleted file of the second goes before the stray of the first; there is a plan for each."""
    second = writable_copy("retention/logdir", tmp_path / "more logs")
    (whole,) = free([log_dir], "--except", "stray")
    answers = free([log_dir, second, log_dir / "."], "--bytes", str(whole["freed_bytes"] + 4096))
    assert [answer["disk_freed_bytes"] for answer in answers] == [sum(a["freed_bytes"] for a in answers)] * 2
    kinds = {item["kind"] for answer in answers for item in answer["items"]}
    assert "stray" not in kinds
    assert all(answer["items"] for answer in answers)


@pytest.mark.parametrize(
    "fixture", ["retention/logdir", "transactions/logdir", "leader-epochs/logdir", "metadata/logdir"]
)
def test_what_is_left_loads_as_before(fixture: str, tmp_path: pathlib.Path) -> None:
    """recover answers the same, but for the start of logs of which retention removed segments."""
    log_dir = with_leftovers(fixture, tmp_path / "logs")
    before = recovered(log_dir)
    words = ["free", str(log_dir), *NOW, "--config", "retention.ms=1000", "--bytes", "1TiB", "--except", "stray"]
    done = run_here([*words, "--format", "json"], tmp_path)
    items = next(row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan")["answer"]["items"]
    cut = {os.path.dirname(item["path"]): item["path"] for item in items if item["kind"] == "retention"}
    assert run_here([*words, "--apply", "--no-undo"], tmp_path).status == 1
    after = recovered(log_dir)
    for path, answer in before.items():
        if path in cut:
            assert after[path]["log_start_offset"] > answer["log_start_offset"]
            answer, after[path] = (without_start(row) for row in (answer, after[path]))
        if path in after and "skipped" not in answer:
            assert after[path] == answer, path
    assert run_here(["verify", str(log_dir), "--fail-on", "warning"], tmp_path).status == 0


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["retention/logdir", "transactions/logdir", "leader-epochs/logdir"])
def test_after_a_kill_at_any_step_it_loads_as_before(fixture: str, tmp_path: pathlib.Path) -> None:
    """Up to the start of a log, and segments that the start has to recover because their index is gone."""
    log_dir = with_leftovers(fixture, tmp_path / "logs")
    done = run("free", log_dir, *NOW, "--config", "retention.ms=1000", "--except", "stray", "--format", "json")
    plan = next(row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan")
    assert len(plan["steps"]) > 5
    whole = loads(log_dir)
    loaded = {path for path, answer in whole.items() if answer["log_end_offset"] is not None}  # not what is `-delete`
    before = {path: loads(pathlib.Path(path)) for path in loaded}
    assert all(path in answers for path, answers in before.items())
    assert any(str((log_dir / step["path"]).parent) in loaded for step in plan["steps"])
    freed = shutil.copytree(log_dir, tmp_path / "freed")
    words = ["--config", "retention.ms=1000", "--except", "stray", "--bytes", "1TiB", "--apply", "--no-undo"]
    assert run("free", freed, *NOW, *words).status == 1
    for step in plan["steps"]:
        path = log_dir / step["path"]
        if step["step"] == "write":
            path.write_bytes((freed / step["path"]).read_bytes())
        else:
            path.unlink()
        folder = path.parent  # no other partition's recovery looks there
        assert str(folder) not in loaded or loads(folder) == before[str(folder)], step
    after = loads(log_dir)
    assert after == {path: whole[path] for path in after}
    assert run("verify", log_dir, "--fail-on", "warning").status == 0


def loads(folder: pathlib.Path) -> dict[str, dict[str, Any]]:
    """How a start would load what lies there."""
    return {path: settled(answer) for path, answer in recovered(folder).items()}


def settled(answer: dict[str, Any]) -> dict[str, Any]:
    """What no step may change: where the log ends, what is lost."""
    names = ("log_end_offset", "truncated", "deleted_segments", "behind_end", "missing", "loses_records", "skipped")
    return {name: answer.get(name) for name in names}


def with_leftovers(fixture: str, to: pathlib.Path) -> pathlib.Path:
    log_dir = writable_copy(fixture, to)
    for folder in [path for path in log_dir.iterdir() if path.is_dir()]:
        for name in (f"{1:020d}.log.deleted", f"{1:020d}.index", f"{2:020d}.log.cleaned", f"{2:020d}.txnindex"):
            (folder / name).write_bytes(bytes(9000))
    return log_dir


def test_an_index_goes_before_the_log_that_it_was_of(log_dir: pathlib.Path) -> None:
    """A kill between the two must not leave an index that looks like the trace of a lost segment."""
    for name in ("5.log.deleted", "5.index", "7.log.cleaned", "7.log.deleted", "7.timeindex"):
        (log_dir / "start-0" / f"{name[0]:0>20}{name[1:]}").write_bytes(bytes(100))
    (answer,) = free([log_dir], "--only", "deleted", "--only", "cleaned")
    by_name = {os.path.basename(item["path"]): item["files"] for item in answer["items"] if "start-0" in item["path"]}
    assert [by_name[f"{n:020d}.log.{end}"] for n, end in ((5, "deleted"), (7, "deleted"), (7, "cleaned"))] == [2, 2, 1]


def test_nothing_goes_by_a_time_that_nobody_gave(log_dir: pathlib.Path) -> None:
    """Seven days are a default; the broker may have another one in its server.properties."""
    done = run_here(["free", str(log_dir), "--now", "2026-11-22", "--format", "json"], log_dir.parent)
    (answer,) = [row["answer"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    paths = [item["path"] for item in answer["items"] if item["kind"] == "retention"]
    assert not [path for path in paths if "/inside-0/" in path]
    assert any("inside-0" in row["path"] and "retention.ms is a guess" in row["why"] for row in answer["left_out"])


def test_a_brokers_time_is_not_the_topics(log_dir: pathlib.Path) -> None:
    """Without __cluster_metadata, a topic may have a longer time of its own."""
    properties = log_dir.parent / "server.properties"
    properties.write_text("log.retention.hours=168\nlog.retention.bytes=1\n")
    for words in (["--config-file", str(properties)], ["--config", "log.retention.hours=168"]):
        done = run_here(["free", str(log_dir), "--now", "2026-11-22", *words, "--format", "json"], log_dir.parent)
        (answer,) = [row["answer"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
        paths = [item["path"] for item in answer["items"] if item["kind"] == "retention"]
        assert not [path for path in paths if "/inside-0/" in path]
        assert any("is not known without __cluster_metadata" in row["why"] for row in answer["left_out"])


@pytest.mark.parametrize(
    ("given", "is_topic_known", "source", "is_known"),
    [
        ((), True, BY_CLUSTER, True),
        ((), True, BY_FILE, True),
        ((), True, None, False),
        (("log.retention.hours",), True, AS_GIVEN, False),  # it comes before the topic's own
        (("retention.ms",), False, AS_GIVEN, True),
        (("log.retention.hours",), False, BY_FILE, False),
    ],
)
def test_which_settings_are_known(
    given: tuple[str, ...], is_topic_known: bool, source: str | None, is_known: bool
) -> None:
    assert KnownSettings(frozenset(given), is_topic_known).has("retention.ms", source) is is_known


def test_records_that_may_be_the_only_copy_go_for_good_only_if_they_are_named(log_dir: pathlib.Path) -> None:
    (answer,) = free([log_dir], "--no-undo")
    assert "stray" not in {row["kind"] for row in answer["kinds"]}
    (answer,) = free([log_dir], "--no-undo", "--only", "stray")
    assert {item["kind"] for item in answer["items"]} == {"stray"}


def test_retention_waits_where_a_segment_is_lost(log_dir: pathlib.Path) -> None:
    (log_dir / "inside-0" / f"{20:020d}.index").write_bytes(bytes(16))
    (answer,) = free([log_dir])
    assert not [item for item in answer["items"] if item["kind"] == "retention" and "inside-0" in item["path"]]
    assert any("klogtool doctor" in row["why"] for row in answer["left_out"])
    orphaned = [item for item in answer["items"] if item["kind"] == "orphaned"]
    assert [item["costs"][:5] for item in orphaned] == ["LOSES"] * 2
    for item in orphaned:  # each says which segment it is the trace of
        began = int(pathlib.Path(item["path"]).name.split(".")[0])
        assert f"a segment that began at offset {began}, " in item["why"]


def without_start(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in ("log_start_offset", "log_start_checkpoint")}


def recovered(log_dir: pathlib.Path) -> dict[str, dict[str, Any]]:
    done = run_here(["recover", str(log_dir), "--format", "json"], log_dir)
    rows = [json.loads(line) for line in done.out.splitlines()]
    return {row["path"]: row["answer"] for row in rows if row["type"] == "plan" and row["answer"]}


def test_compaction_is_told_as_compact_plans_it(tmp_path: pathlib.Path) -> None:
    log_dir = writable_copy("transactions/logdir", tmp_path / "logs")
    asked = ["--config", "cleanup.policy=compact", "--now", "2027-01-01"]
    done = run("compact", log_dir, *asked, "--purge", "--format", "json")
    plans = [row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan"]
    wanted = {row["path"]: row["bytes_freed"] for row in plans if "passes" in row["answer"] and row["bytes_freed"] > 0}
    (answer,) = free([log_dir], *asked)
    assert {row["path"]: row["bytes"] for row in answer["compaction"]} == wanted
    assert len(wanted) > 1
    assert (answer["items"], answer["freed_bytes"]) == ([], 0)
    text = run("free", log_dir, *asked, "--bytes", "1MiB").out.decode()
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("    klogtool compact")]
    assert {words[2] for words in commands} == wanted.keys()
    for words in commands:
        assert run(*words[1:], "--now", "2027-01-01").status == 0
    (answer,) = free([log_dir], *asked, "--bytes", "1MiB")
    assert (answer["compaction"], answer["reached"]) == ([], False)


def test_compaction_is_not_looked_at_if_the_kinds_before_are_enough(log_dir: pathlib.Path) -> None:
    (answer,) = free([log_dir], "--bytes", "1")
    assert [row["kind"] for row in answer["kinds"]] == ["deleted"]


# What is chosen, over made-up files.


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    """Candidates of all kinds. Some files have several names, of which some are not to be had; some form chains."""
    inodes = [(n, draw(st.integers(1, 3)), draw(st.integers(0, 4)) * 512) for n in range(8)]
    found = []
    used = dict.fromkeys(range(8), 0)
    for n in range(draw(st.integers(0, 10))):
        names = []
        for ino, links, size in draw(st.lists(st.sampled_from(inodes), max_size=3)):
            if used[ino] < links:
                used[ino] += 1
                names.append(Name(Fact(f"/{n}/{ino}/{used[ino]}", 0, 0), (1, ino), links, size))
        kind = draw(st.sampled_from(KINDS))
        chain = draw(st.sampled_from([None, "a", "b"])) if kind.name == "retention" else None
        found.append(Candidate(kind, f"/{n}", "/", tuple(names), chain=chain))
    return found


@given(candidates(), st.integers(1, 4000))
def test_the_choice_keeps_its_laws(found: list[Candidate], asked: int) -> None:
    def chosen(asked_bytes: int | None) -> FreeChoice:
        by_kind = [(kind, [one for one in found if one.kind is kind]) for kind in KINDS]
        return choose(by_kind, asked_bytes)

    choice, most = chosen(asked), chosen(None).on_disk
    taken = [item.candidate for item in choice.taken]
    assert choice.on_disk == FreedBytes(taken).on_disk == sum(item.on_disk for item in choice.taken)
    assert most == FreedBytes(found).on_disk
    assert (choice.on_disk >= asked) == (most >= asked)
    ranks = [KINDS.index(one.kind) for one in taken]
    assert ranks == sorted(ranks)
    for chain in ("a", "b"):
        links = [one for one in found if one.chain == chain]
        assert [one for one in taken if one.chain == chain] == links[: sum(one.chain == chain for one in taken)]
    for spared in taken:
        rest = FreedBytes(one for one in taken if one is not spared).on_disk
        is_needed_by_chain = (
            spared.chain is not None and spared is not [o for o in taken if o.chain == spared.chain][-1]
        )
        is_last = choice.on_disk >= asked and KINDS.index(spared.kind) == ranks[-1]
        assert is_needed_by_chain or rest < (asked if is_last else choice.on_disk), spared


def test_kinds_after_the_last_one_needed_are_not_asked_for() -> None:
    name = Name(Fact("/a", 0, 0), (1, 1), 1, 4096)

    def kinds() -> Any:
        yield DELETED, [Candidate(DELETED, "/a", "/", (name,))]
        raise AssertionError((CLEANED, STRAY))

    assert choose(kinds(), 4096).on_disk == 4096


# What klogtool itself keeps beside the log dir.


@pytest.fixture
def worked_on(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir with two finished runs in its journal, and bytes that salvage rejected."""
    log_dir = writable_copy("killed-mid-append/logdir", tmp_path / "logs")
    (tmp_path / "mended").mkdir()
    assert run("salvage", log_dir / "flip-bit-0", "--output", tmp_path / "mended" / "flip-bit-0").status == 1
    (tmp_path / "mended" / "flip-bit-0.rejected").rename(tmp_path / "flip-bit-0.rejected")
    for to in (20, 10):
        assert run("truncate", log_dir / "torn-tail-0", "--to", to, *NOW, "--apply").status in (0, 1)
    return log_dir


@pytest.mark.slow
def test_journals_and_rejected_bytes_go_as_a_whole(worked_on: pathlib.Path) -> None:
    place = worked_on.parent
    (answer,) = free([worked_on], "--only", "journal", "--only", "rejected")
    assert [item["kind"] for item in answer["items"]] == ["rejected", "journal", "journal"]
    assert not any(item["undo"] for item in answer["items"])
    before = recovered(worked_on)
    words = ["free", worked_on, *NOW, "--only", "journal", "--only", "rejected", "--bytes", answer["freed_bytes"]]
    done = run(*words, "--apply", "--no-undo")
    assert done.status == 0, done.err
    assert done.out.decode().count("Deleted for good") == 3
    assert sorted(os.listdir(place)) == ["logs", "mended"]
    assert recovered(worked_on) == before


def test_hard_links_in_the_journal_are_freed_with_it(tmp_path: pathlib.Path) -> None:
    """retain keeps what it deletes in .deleted files and, by hard links, in the journal: both have to go."""
    log_dir = writable_copy("leader-epochs/logdir", tmp_path / "logs")
    assert run("retain", log_dir / "t-0", "--config", "retention.bytes=1", *NOW, "--apply").status == 0
    (alone,) = free([log_dir], "--only", "deleted")
    assert not [item["path"] for item in alone["items"] if os.stat(item["path"]).st_nlink > 1]
    (both,) = free([log_dir], "--only", "deleted", "--only", "journal")
    assert {item["kind"] for item in both["items"]} == {"deleted", "journal"}
    links = [path for path in (log_dir / "t-0").glob("*.deleted") if path.stat().st_nlink == 2]
    assert links
    assert sum(item["bytes"] for item in both["items"] if item["kind"] == "journal") >= 4096 * len(links)


def test_runs_that_are_not_finished_and_folders_of_others_stay(worked_on: pathlib.Path) -> None:
    place = worked_on.parent
    (place / "flip-bit-0.rejected" / "a note of mine").write_bytes(bytes(5000))
    (place / "other.rejected").mkdir()
    for entry in (place / "logs.klogtool").iterdir():
        manifest = entry / "manifest.json"
        manifest.write_bytes(manifest.read_bytes().replace(b'"DONE"', b'"STAGED"'))
    (answer,) = free([worked_on], "--only", "journal", "--only", "rejected")
    assert answer["items"] == []


def test_a_saved_plan_discards_nothing_else(worked_on: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A plan is a file that somebody else may have written."""
    saved = tmp_path / "plan"
    words = ["free", worked_on, *NOW, "--only", "journal", "--bytes", "1", "--no-undo", "--plan-out", saved]
    assert run(*words).status == 0
    _, line = saved.read_text().splitlines()
    row = json.loads(line)
    for path in (
        "../mended",
        "..",
        "../..",
        "../logs.klogtool",
        "/etc",
        "../x/y.rejected",
        "../logs.klogtool/../a.rejected",
    ):
        row["steps"][0]["path"] = path
        with pytest.raises(WrongField, match="no folder of klogtool's own"):
            check_step(read_as(row["steps"][0], Discard), row["path"], "steps[0]")
    before = set(os.listdir(tmp_path))
    done = run("apply", saved)
    assert done.status == 0, done.err
    assert before - set(os.listdir(tmp_path)) <= {"logs.klogtool"}


def test_a_run_that_changed_is_not_discarded(worked_on: pathlib.Path, tmp_path: pathlib.Path) -> None:
    saved = tmp_path / "plan"
    words = ["free", worked_on, *NOW, "--only", "journal", "--bytes", "1", "--no-undo", "--plan-out", saved]
    assert run(*words).status == 0
    for entry in (tmp_path / "logs.klogtool").iterdir():
        (entry / "more").write_bytes(b"1")
    assert run("apply", saved).status == 3
    assert len(list((tmp_path / "logs.klogtool").iterdir())) == 2


def test_undo_brings_back_all_but_what_is_discarded(worked_on: pathlib.Path) -> None:
    elsewhere = pathlib.Path("/dev/shm")
    if not os.access(elsewhere, os.W_OK) or elsewhere.stat().st_dev == worked_on.stat().st_dev:
        pytest.skip("there is no other disk here")
    with tempfile.TemporaryDirectory(dir=elsewhere) as to:
        (worked_on / "torn-tail-0" / "x.deleted").write_bytes(bytes(9000))
        before = {path: path.read_bytes() for path in worked_on.rglob("*") if path.is_file()}
        done = run("free", worked_on, *NOW, "--bytes", "1TiB", "--apply", "--to", to, "--format", "json")
        assert done.status == 1, done.err
        plan = next(row for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan")
        lost = sum(item["bytes"] for item in plan["answer"]["items"] if not item["undo"])
        assert plan["bytes_freed"] - plan["bytes_held"] == lost > 0
        assert not (worked_on / "torn-tail-0" / "x.deleted").exists()
        assert run("undo", "--journal", to).status == 0
        assert {path: path.read_bytes() for path in worked_on.rglob("*") if path.is_file()} == before
        assert not (worked_on.parent / "logs.klogtool").exists()


# What it does not touch.

LARGE = 1 << 20


def put(path: pathlib.Path, size: int = LARGE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


def test_a_large_file_that_is_no_file_of_kafka_is_named(log_dir: pathlib.Path) -> None:
    put(log_dir / "time-0" / f"{0:020d}.log.bak", 11 * LARGE)
    (answer,) = free([log_dir])
    named = {row["path"]: (row["why"], row["bytes"]) for row in answer["untouched"]}
    assert named[str(log_dir / "time-0" / f"{0:020d}.log.bak")] == ("foreign", 11 * LARGE)
    told = " ".join(run("free", log_dir, *NOW).out.decode().split())
    assert "not touched: 11 MiB in 1 file why no files of Kafka" in told


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (f"time-0/{0:020d}.log.bak", "foreign"),
        ("time-0/word.log", "foreign"),
        ("notes", "foreign"),
        ("other/below/deep", "foreign"),
        ("time-0/kept/below/deep", "foreign"),
        (f"gone-0.{ID}-stray/kept/{0:020d}.log", "foreign"),
        (f"time-0/{5:020d}.index.tmp", "foreign"),
        (f"time-0/{5:020d}-{1:010d}.checkpoint", "foreign"),
        ("time-0/.lock", "foreign"),
        ("time-0/leader-epoch-checkpoint.tmp", "left-over"),
        ("recovery-point-offset-checkpoint.tmp", "left-over"),
        (f"__cluster_metadata-0/{5:020d}-{1:010d}.checkpoint.deleted", "left-over"),
        (f"__cluster_metadata-0/{5:020d}-{1:010d}-7.checkpoint.part", "left-over"),
        ("remote-log-index-cache/12_abc.index", "remote-cache"),
        (".lock", "in-use"),
        (f"time-0/{999:020d}.log", "in-use"),
        (f"time-0/{5:020d}.log.0123456789ab-1.1.2.deleted", "run"),
        (f"inside-0/{34:020d}.log.swap", "interrupted"),
        (f"time-0/{34:020d}.log.deleted", "not-asked"),
        (f"gone-0.{ID}-stray/{9999:020d}.log", "not-asked"),
        (f"gone-0.{ID}-stray/whatever", "not-asked"),
    ],
)
def test_why_a_large_file_stays(log_dir: pathlib.Path, name: str, why: str) -> None:
    put(log_dir / name)
    (answer,) = free([log_dir], "--only", "orphaned")
    path = str(log_dir / name) if why != "in-use" else str((log_dir / name).parent)
    assert (path, why) in {(row["path"], row["why"]) for row in answer["untouched"]}


@pytest.mark.parametrize("folder", ["notes", "time-0/notes", "remote-log-index-cache"])
def test_many_small_files_are_named_by_their_folder(log_dir: pathlib.Path, folder: str) -> None:
    for n in range(40):
        put(log_dir / folder / f"{n % 7}/{n}" if folder == "notes" else log_dir / folder / str(n), LARGE // 32)
    (answer,) = free([log_dir])
    rows = [row for row in answer["untouched"] if row["path"] == str(log_dir / folder)]
    assert [(row["files"], row["bytes"]) for row in rows] == [(40, 40 * LARGE // 32)]


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned"])
def test_the_only_copy_of_records_stays(log_dir: pathlib.Path, suffix: str) -> None:
    """A start deletes it, so the doctor counts its records as lost; nothing that is called free of loss has them."""
    _, log, *_ = sorted((log_dir / "time-0").glob("*.log"))
    copy = log.rename(log.with_name(log.name + suffix))
    put(log_dir / "time-0" / "7.deleted", 9000)
    (answer,) = free([log_dir])
    paths = {item["path"] for item in answer["items"]}
    assert str(copy) not in paths
    assert str(log_dir / "time-0" / "7.deleted") in paths
    left = [row for row in answer["left_out"] if row["path"] == str(log_dir / "time-0")]
    assert copy.name in left[0]["why"]
    assert left[0]["cure"] == f"klogtool doctor {log_dir}"


def test_a_hard_link_elsewhere_is_why(log_dir: pathlib.Path) -> None:
    put(log_dir / f"time-0/{9999:020d}.log")
    os.link(log_dir / f"time-0/{9999:020d}.log", log_dir.parent / "backup")
    (answer,) = free([log_dir])
    assert [row["why"] for row in answer["untouched"] if row["path"].endswith(f"{9999:020d}.log")] == ["linked"]


@pytest.mark.slow
@given(seed=st.randoms())
def test_every_large_file_is_taken_or_named(seed: Any) -> None:
    """Whatever its name, and wherever it lies; what a broker uses is named by its partition dir."""
    ends = ["", ".log", ".bak", ".index", ".log.deleted", ".log.cleaned", ".log.swap", ".snapshot", ".tmp", " .log"]
    with tempfile.TemporaryDirectory() as place:
        log_dir = writable_copy("retention/logdir", pathlib.Path(place) / "logs")
        dirs = [path for path in log_dir.iterdir() if path.is_dir()]
        folders = [*dirs, *(path / "kept" for path in dirs), log_dir, log_dir / "x", log_dir / "x/y-0"]
        put_at = [
            seed.choice(folders) / f"{seed.choice(['0' * 20, '7' * 20, 'a', '-1'])}{seed.choice(ends)}z" for _ in "12"
        ]
        put_at += [seed.choice(folders) / f"{seed.randrange(10**6):020d}{seed.choice(ends)}" for _ in "1234"]
        for path in put_at:
            put(path)
        (answer,) = free([log_dir])
        items = {item["path"] for item in answer["items"]}
        untouched = {row["path"]: row["why"] for row in answer["untouched"]}
        for path in map(str, put_at):
            folder, segment = os.path.dirname(path), os.path.splitext(path)[0] + ".log"  # which goes with its indexes
            is_taken = not items.isdisjoint({path, folder, segment})
            assert is_taken or path in untouched or untouched.get(folder) == "in-use", path


def test_nothing_is_named_where_the_bytes_are_reached(log_dir: pathlib.Path) -> None:
    put(log_dir / "notes")
    (answer,) = free([log_dir], "--bytes", "1KiB")
    assert answer["reached"]
    assert answer["untouched"] == []


@pytest.mark.parametrize(
    "asked", [[], ["--only", "retention", "--bytes", "4096"], ["--only", "retention", "--bytes", "20000"]]
)
def test_leader_epochs_begin_where_the_log_does(tmp_path: pathlib.Path, asked: list[str]) -> None:
    """As after a broker's retention (UnifiedLog.maybeIncrementLogStartOffset): epochs below the first segment would
    show that its records are missing."""
    log_dir = writable_copy("retention/logdir", tmp_path / "logs")
    retained = shutil.copytree(log_dir, tmp_path / "retained")
    assert run("retain", retained, *NOW, "--apply").status == 0
    logs = {path: path.parent for path in log_dir.glob("*-[0-9]/*.log")}
    before = {folder: (folder / EPOCHS).read_bytes() for folder in logs.values() if (folder / EPOCHS).exists()}
    words = asked or ["--bytes", "1TiB"]
    assert run("free", log_dir, *NOW, "--except", "stray", *words, "--apply", "--no-undo").status in (0, 1)
    raised = {folder for path, folder in logs.items() if not path.exists()} & before.keys()
    assert raised
    for folder, epochs in before.items():
        now, base = (folder / EPOCHS).read_bytes(), min(int(path.stem) for path in folder.glob("*.log"))
        assert now == (f"0\n1\n0 {base}\n".encode() if folder in raised else epochs), folder
        of_retain = retained / folder.name
        if min(int(path.stem) for path in of_retain.glob("*.log")) == base:
            assert now == (of_retain / EPOCHS).read_bytes()
    rows = map(json.loads, run("doctor", log_dir, *NOW, "--format", "json").out.splitlines())
    claims = [row for row in rows if row["type"] == "claim" and row["about"] == "partition"]
    assert claims
    assert not [row for row in claims if row["gone_already"]["witness"]]
