"""klogtool offsets: what it prints, what it tells on stderr, how it ends."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from bad_input import MEMORY_BYTES, garbage_for, writable_copy
from committing import OffsetsLog, commit_key, commit_value
from coordinator_records import build_coordinator_key, build_version_prefixed
from raw_batches import build_batch
from running import FIXTURES, KLOGTOOL, Done, run_apart, run_here, with_memory, without_power_over_files

from klogtool.broker.coordinator.coordinator_load import why_unread
from klogtool.format.batch import Record
from klogtool.format.internal.records import GROUP, build_metadata_record
from klogtool.format.internal.schema import api_keys, schema_of
from klogtool.format.names import FileKind

LOG_DIR = FIXTURES / "groups/logdir"
TRANSACTIONS = FIXTURES / "transactions/logdir"


def asked(*words: object) -> Done:
    return run_here(["offsets", *map(str, words)], FIXTURES)


def rows(done: Done) -> list[dict[str, object]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_json_has_a_row_for_each_offset_and_an_answer() -> None:
    head, *committed, answer = rows(asked(LOG_DIR, "--format", "json"))
    assert head["command"] == "offsets"
    assert committed[0] == {
        "type": "committed",
        "group": "g-new",
        "topic": "t",
        "partition": 0,
        "offset": 30,
        "leader_epoch": -1,
        "metadata": "seen 30",
        "commit_timestamp": 1795283346092,
        "timestamp": 1795283346092,
        "log_start_offset": 0,
        "log_end_offset": 30,
        "lag": 0,
        "out_of_range": None,
        "stored_in": 0,
        "coordinator_partition": None,
    }
    assert (answer["groups"], answer["committed"], answer["complete"]) == (6, len(committed), True)


def test_records_of_another_log_are_no_commits(tmp_path: pathlib.Path) -> None:
    """A folder that was exchanged by hand: a broker knows none of its groups."""
    log_dir = shutil.copytree(LOG_DIR, tmp_path / "logdir")
    (own,) = (log_dir / "__consumer_offsets-0").glob("*.log")
    shutil.copy(next((log_dir / "t-0").glob("*.log")), own)
    done = run_here(["offsets", "logdir", "--quiet"], tmp_path)
    assert (done.status, b"history: complete" in done.out) == (1, False)
    assert "no group coordinator wrote" in done.err
    (answer,) = (row for row in rows(run_here(["offsets", "logdir", "--json"], tmp_path)) if row["type"] == "answer")
    assert (answer["groups"], answer["complete"]) == (0, False)


def test_groups_are_selected() -> None:
    _, *committed, answer = rows(asked(LOG_DIR, "--format", "json", "--group", "g-u", "--group", "g-static"))
    assert {row["group"] for row in committed} == {"g-u", "g-static"}
    assert answer["groups"] == 2


def test_a_group_without_offsets_is_told() -> None:
    done = asked(LOG_DIR, "--group", "g-gone")
    assert done.status == 0
    assert "group g-gone: no committed offsets" in done.err
    assert asked(LOG_DIR, "--group", "g-gone", "--quiet").told == ""


def test_csv_with_and_without_groups() -> None:
    assert asked(LOG_DIR, "--format", "csv", "--group", "g-u").out == b"u,0,7\n"
    both = asked(LOG_DIR, "--format", "csv", "--group", "g-u", "--group", "g-static")
    assert both.out == b"g-static,u,0,11\ng-u,u,0,7\n"


def log_dir_of(tmp_path: pathlib.Path, *groups: str) -> pathlib.Path:
    log = OffsetsLog()
    for n, group in enumerate(groups):
        log.commit(n, 100 * (n + 1), group=group)
    log.write(tmp_path)
    (tmp_path / FileKind.META_PROPERTIES.value).write_text("version=1\n")
    return tmp_path


def test_csv_of_unusual_names(tmp_path: pathlib.Path) -> None:
    log_dir = log_dir_of(tmp_path, "a,b", 'say "x"', "", "two\nlines", " blank ")
    done = asked(log_dir, "--format", "csv")
    assert done.out.decode() == '"",t,0,2\n" blank ",t,0,4\n"a,b",t,0,0\n"say ""x""",t,0,1\n'
    assert "1 left out of the CSV" in done.err


def test_text_of_unusual_names_stays_in_its_line(tmp_path: pathlib.Path) -> None:
    log_dir = log_dir_of(tmp_path, "two\nlines\x1b[31m", "")
    told = asked(log_dir).out.decode()
    assert "group two\\nlines\\x1b[31m\n" in told
    assert "group (no name)\n" in told
    assert "-: the partition is not under the given paths" in told


def test_what_is_pending_is_listed_apart(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.commit(5, 200, producer_id=9)
    log.write(tmp_path)
    log.end(9, 300)
    whole = log.data
    _, committed, pending, answer = rows(asked(tmp_path, "--format", "json"))
    assert (committed["offset"], pending["offset"], pending["producer_id"]) == (1, 5, 9)
    assert (pending["type"], answer["pending"]) == ("pending", 1)
    assert "In open transactions: these offsets do not count yet." in asked(tmp_path).out.decode()
    path = tmp_path / "__consumer_offsets-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + whole)
    assert [row["offset"] for row in rows(asked(tmp_path, "--format", "json"))[1:-1]] == [5]


def with_metadata(log_dir: pathlib.Path, partitions: int) -> None:
    """The cluster's metadata: `__consumer_offsets` has so many partitions."""
    topic_id = "AAECAwQFBgcICQoLDA0ODw"
    records = [build_metadata_record("TopicRecord", 0, {"name": "__consumer_offsets", "topicId": topic_id})]
    places = {"topicId": topic_id, "replicas": [1], "isr": [1], "leader": 1, "directories": ["Q4rLFXj5Q1aB3vXnJ0abcQ"]}
    records += [
        build_metadata_record("PartitionRecord", 1, {**places, "partitionId": number}) for number in range(partitions)
    ]
    (log_dir / "__cluster_metadata-0").mkdir()
    data = build_batch([Record(n, 0, None, record) for n, record in enumerate(records)])
    (log_dir / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(data)
    (log_dir / FileKind.META_PROPERTIES.value).write_text("version=1\n")


@pytest.mark.parametrize("partitions", [None, 3, 4, 50])
def test_commits_where_no_coordinator_looks_for_them_are_told(tmp_path: pathlib.Path, partitions: int | None) -> None:
    """Of 3 partitions, group a is coordinated in the second; of 4 too; of 50 in the last but two."""
    later, earlier = OffsetsLog(), OffsetsLog()
    later.commit(5, 200, group="a")
    later.commit(6, 200, group="d")
    later.write(tmp_path, partition=47)
    earlier.commit(1, 100, group="a")
    earlier.write(tmp_path, partition=1)
    if partitions is not None:
        with_metadata(tmp_path, partitions)
    done = asked(tmp_path, "--json")
    *commits, answer = rows(done)[1:]
    of_a, at_47 = ({key: row[key] for key in ("offset", "stored_in", "coordinator_partition")} for row in commits)
    asks = None if partitions is None else {3: 1, 4: 1, 50: 47}[partitions]
    assert of_a == {"offset": 1 if asks == 1 else 5, "stored_in": asks or 47, "coordinator_partition": asks}
    assert (at_47["offset"], at_47["stored_in"]) == (6, 47)
    assert (answer["partitions"], answer["unserved"]) == (partitions, 0 if partitions is None else 1)
    assert done.status == (0 if partitions is None else 1)
    text = asked(tmp_path)
    of_d = f"group d: in __consumer_offsets-47, its coordinator leads __consumer_offsets-{100 % (partitions or 1)}"
    assert (of_d in text.out.decode()) is (partitions is not None)
    assert ("group a: commits in __consumer_offsets-1 and __consumer_offsets-47" in text.err) is (partitions is None)


def compacted(tmp_path: pathlib.Path) -> pathlib.Path:
    log = OffsetsLog()
    log.skip()
    log.commit(2, 1_700_000_000_000)
    log.write(tmp_path)
    log.commit(3, 1_700_000_001_000)
    log.write(tmp_path, base_offset=2)
    (tmp_path / FileKind.CLEANER_CHECKPOINT.value).write_text("0\n1\n__consumer_offsets 0 2\n")
    return tmp_path


def test_it_says_from_when_on_the_past_is_complete(tmp_path: pathlib.Path) -> None:
    log_dir = compacted(tmp_path)
    assert "history: complete from 2023-11-14T22:13:20Z on; compaction removed" in asked(log_dir).out.decode()
    before = asked(log_dir, "--at", "2023-11-14T22:13:19Z", "--format", "json")
    assert "complete only from 2023-11-14T22:13:20Z on" in before.err
    assert rows(before)[-1]["complete"] is False
    since = asked(log_dir, "--at", "2023-11-14T22:13:20Z", "--format", "json")
    assert since.told == ""
    assert rows(since)[-1]["complete"] is True
    assert rows(since)[-1]["complete_from"] == 1_700_000_000_000


def test_a_log_start_and_other_copies_are_told(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b"):
        log = OffsetsLog(start=5)
        log.commit(1, 100)
        log.write(tmp_path / name, base_offset=5)
    done = asked(tmp_path / "a", tmp_path / "b")
    assert "starts at offset 5: what groups committed only before that is gone" in done.err
    assert f"read in place of {tmp_path}/b/__consumer_offsets-0" in done.err


def test_damage_is_told_and_is_status_1(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    log.add([(commit_key(topic="u"), commit_value(3, 100), 100)])
    log.data[-1] ^= 1
    log.write(tmp_path)
    done = asked(tmp_path, "--quiet")
    assert done.status == 1
    assert "are left out: the checksum does not match. Commits in them are missing" in done.err
    assert rows(asked(tmp_path, "--format", "json"))[-1]["complete"] is False


@pytest.mark.parametrize("name", ["groups/logdir/t-0", "groups/logdir/__consumer_offsets-0/00000000000000000000.log"])
def test_other_paths_are_refused(name: str) -> None:
    done = asked(FIXTURES / name)
    assert done.status == 4
    assert "neither a log dir nor a partition dir of __consumer_offsets" in done.err


def test_a_partition_dir_is_enough() -> None:
    done = asked(LOG_DIR / "__consumer_offsets-0", "--group", "g-u")
    assert done.status == 0
    assert " -  " in done.out.decode()


def test_a_log_dir_without_the_topic(tmp_path: pathlib.Path) -> None:
    done = asked(FIXTURES / "every-codec/logdir")
    assert done.status == 0
    assert "no partition of __consumer_offsets is under the given paths" in done.err


# Hostile input, and files that stay as they are.


def test_reading_changes_nothing(
    unchanged: Callable[[pathlib.Path], AbstractContextManager[None]], tmp_path: pathlib.Path
) -> None:
    log_dir = writable_copy("groups/logdir", tmp_path / "logdir")
    with unchanged(log_dir):
        done = [asked(log_dir, *words) for words in ((), ("--format", "json"), ("--at", 0), ("--format", "csv"))]
    assert [one.status for one in done] == [0] * 4


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".log", ".index", ".timeindex", ".snapshot", "cleaner-offset-checkpoint"])
def test_garbage_in_a_file(tmp_path: pathlib.Path, ending: str) -> None:
    log_dir = writable_copy("transactions/logdir", tmp_path / "logdir")
    folder = log_dir / "__consumer_offsets-0"
    path = next((one for one in folder.iterdir() if one.name.endswith(ending)), log_dir / ending)
    for data in garbage_for(path):
        path.write_bytes(data)
        done = run_apart("offsets", log_dir, before=with_memory(MEMORY_BYTES))
        assert "Traceback" not in done.err
        assert done.status == 0 or (done.status == 1 and "klogtool: " in done.err)


def test_a_file_that_may_not_be_read(tmp_path: pathlib.Path) -> None:
    log_dir = writable_copy("groups/logdir", tmp_path / "logdir")
    (log_dir / "t-0" / f"{0:020}.log").chmod(0)
    done = run_apart("offsets", log_dir, "--group", "g-new", before=without_power_over_files)
    assert done.status == 0
    assert b" -  " in done.out, "the log end of t-0 is not known"
    (log_dir / "__consumer_offsets-0" / f"{0:020}.log").chmod(0)
    done = run_apart("offsets", log_dir, before=without_power_over_files)
    assert done.status == 4
    assert "permission denied" in done.err


def test_a_name_that_is_no_utf8(tmp_path: pathlib.Path) -> None:
    log_dir = tmp_path / os.fsdecode(b"disk \xff")
    log = OffsetsLog()
    log.commit(1, 100)
    log.data[-1] ^= 1
    log.write(log_dir)
    done = asked(log_dir, "--format", "json")
    assert done.status == 1
    damage = rows(done)[-1]["logs"][0]["damage"][0]  # type: ignore[index]
    assert "\\xff" in damage["path"]
    assert "path_base64" in damage


def test_a_log_of_holes_ends_soon(tmp_path: pathlib.Path) -> None:
    log = OffsetsLog()
    log.commit(1, 100)
    path = log.write(tmp_path)
    os.truncate(path, 1 << 31)
    done = run_apart("offsets", tmp_path, before=with_memory(MEMORY_BYTES))
    assert done.status == 0
    assert b"1 committed offset" in done.out


def test_a_reader_that_goes_away() -> None:
    line = shlex.join([*KLOGTOOL, "offsets", str(LOG_DIR), "--format", "json"]) + " | true; exit ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False, timeout=60)
    assert done.returncode in (0, 141)
    assert b"Traceback" not in done.stderr


# Out of range.


def test_offsets_outside_of_their_log_are_named(tmp_path: pathlib.Path) -> None:
    log_dir = writable_copy("groups/logdir", tmp_path / "logs")
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nu 0 20\n")
    assert (
        run_here(["truncate", str(log_dir / "t-2"), "--to", "5", "--apply"], tmp_path).status == 0
    )  # all is one batch
    told = asked(log_dir, "--group", "g-new").out.decode()
    assert "OUT OF RANGE: 2 committed offsets" in told
    assert "group g-new: t-2 at 10, beyond the log end 0" in told
    assert "group g-new: u-0 at 9, below the log start 20" in told
    found = rows(asked(log_dir, "--group", "g-new", "--format", "json"))
    where = {(row["topic"], row["partition"]): row["out_of_range"] for row in found if row["type"] == "committed"}
    assert where == {("t", 0): None, ("t", 2): "beyond-log-end", ("u", 0): "below-log-start"}
    assert found[-1]["out_of_range"] == 2


def test_nothing_is_out_of_range_in_a_sound_log_dir() -> None:
    assert "OUT OF RANGE" not in asked(LOG_DIR).out.decode()
    assert rows(asked(LOG_DIR, "--format", "json"))[-1]["out_of_range"] == 0


GROUP_RECORDS = [
    (key_name, value_name, version)
    for record_type, key_name in sorted(api_keys(GROUP, "coordinator-key").items())
    for value_name in [api_keys(GROUP, "coordinator-value")[record_type]]
    for version in range(schema_of(value_name).versions.low, schema_of(value_name).versions.high + 1)
]


@pytest.mark.some(8)
@pytest.mark.parametrize(("key_name", "value_name", "version"), GROUP_RECORDS)
def test_a_record_that_no_coordinator_can_read_is_said_whatever_it_is(
    tmp_path: pathlib.Path, key_name: str, value_name: str, version: int
) -> None:
    """Each record of a group coordinator, whole and cut anywhere, superseded by a tombstone or not, in any codec."""
    names = schema_of(key_name).struct.default(0).items()
    key = build_coordinator_key(key_name, {name: "g" if value == "" else value for name, value in names})
    value = build_version_prefixed(value_name, version, dict(schema_of(value_name).struct.default(version)))
    rng = random.Random(f"{value_name} {version}")
    for cut in range(len(value) + 1):
        log = OffsetsLog()
        log.commit(1, 5)
        log.add([(key, value[:cut], 6)], codec=rng.choice(("none", "gzip", "zstd")))
        if rng.random() < 0.5:
            log.add([(key, None, 7)])
        log.write(tmp_path)
        why = why_unread(key, value[:cut], GROUP)
        done = asked(tmp_path, "--format", "json")
        logs = rows(done)[-1]["logs"]
        assert isinstance(logs, list)
        (row,) = logs
        assert row["load_ends"] == (None if why is None else {"offset": 1, "reason": why}), cut
        assert done.status == (0 if why is None else 1)
        assert why is None or "cannot read the record at offset 1" in done.err
