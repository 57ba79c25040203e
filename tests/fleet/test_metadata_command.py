"""`klogtool fleet metadata`: the answer, the snapshot that it writes, and what it refuses."""

from __future__ import annotations

import json
import pathlib
import shlex
import shutil
from typing import Any

import pytest
from running import FIXTURES, Done, run_here

from klogtool.broker.metadata.image import read_cluster_metadata

DISKS = FIXTURES / "two-disks" / "logdir"


@pytest.fixture
def klog(tmp_path: pathlib.Path) -> pathlib.Path:
    """What is collected of a broker with two disks."""
    return collected(tmp_path, "broker1.klog", DISKS / "d1", DISKS / "d2")


def collected(folder: pathlib.Path, name: str, *log_dirs: pathlib.Path) -> pathlib.Path:
    path = folder / name
    path.write_bytes(run_here(["fleet", "collect", *map(str, log_dirs)], folder).out)
    return path


def metadata(klog: pathlib.Path, *words: object) -> Done:
    return run_here(["fleet", "metadata", str(klog), *map(str, words)], klog.parent)


def answer(outcome: Done) -> dict[str, Any]:
    head, told = map(json.loads, outcome.out.decode().splitlines())
    assert head["command"] == "fleet metadata"
    found: dict[str, Any] = told
    return found


def test_the_answer_says_what_is_in_the_snapshot(klog: pathlib.Path) -> None:
    done = metadata(klog, "--format", "json")
    assert done.status == 0
    told = answer(done)
    assert (told["kafka"], told["brokers"], told["output"]) == ("4.3.1", [1], None)
    (topic,) = told["topics"]
    assert [topic["topic"], len(topic["partitions"])] == ["t", 4]
    assert {one["name"]: (one["value"], one["why"]) for one in topic["settings"]} == {
        "retention.bytes": ("-1", "held"),
        "retention.ms": ("-1", "held"),
    }
    assert len({partition["directories"][0] for partition in topic["partitions"]}) == 2
    assert [one["folder"].rpartition("-")[2] for one in told["not_adopted"]] == ["stray", "delete", "future"]
    assert "access rules (ACLs)" in told["unknown"]


def test_klogtool_reads_the_snapshot_that_it_writes(klog: pathlib.Path) -> None:
    output = klog.parent / "__cluster_metadata-0"
    done = metadata(klog, "--output", output, "--topic-config", "t:retention.ms=5", "--now", 1_700_000_000_000)
    assert done.status == 0, done.err
    assert [path.name for path in output.iterdir()] == ["00000001700000000000-0028333333.checkpoint"]
    found = read_cluster_metadata(str(output))
    assert found.problem is None
    assert found.topics == {"t": {"retention.bytes": "-1", "retention.ms": "5"}}
    assert found.features["metadata.version"] == 30
    (partitions,) = found.replicas.values()
    assert {number: replicas.brokers for number, replicas in partitions.items()} == dict.fromkeys(range(4), (1,))


def test_the_same_question_has_the_same_bytes(klog: pathlib.Path) -> None:
    for name in ("a", "b"):
        assert metadata(klog, "--output", klog.parent / name, "--now", 5).status == 0
    (one,), (other,) = ((klog.parent / name).iterdir() for name in ("a", "b"))
    assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_a_set_aside_folder_is_adopted_with_a_line_that_renames_it(klog: pathlib.Path) -> None:
    done = metadata(klog, "--adopt-stray")
    assert done.status == 0
    (line,) = (line for line in done.out.decode().splitlines() if "mv -n" in line)
    (stray,) = (DISKS / "d1").glob("ghost-0.*-stray")
    assert shlex.split(line)[-4:] == ["mv", "-n", str(stray), str(DISKS / "d1/ghost-0")]


def test_every_folder_to_rename_is_shown(tmp_path: pathlib.Path) -> None:
    """They are commands to run: the other lists of the text are cut short, this one is not."""
    shutil.copytree(DISKS / "d1", tmp_path / "d1")
    (stray,) = (tmp_path / "d1").glob("*-stray")
    for n in range(1, 50):
        shutil.copytree(stray, stray.with_name(stray.name.replace("ghost-0", f"ghost-{n}")))
    klog = collected(tmp_path, "broker1.klog", tmp_path / "d1")
    assert metadata(klog, "--adopt-stray").out.decode().count("mv -n") == 50


def test_a_partition_without_a_copy_is_a_loss(tmp_path: pathlib.Path) -> None:
    shutil.copytree(DISKS, tmp_path / "disks")
    (gone,) = (tmp_path / "disks").glob("*/t-0")
    shutil.rmtree(gone)
    klog = collected(tmp_path, "broker1.klog", tmp_path / "disks" / "d1", tmp_path / "disks" / "d2")
    done = metadata(klog)
    assert done.status == 1
    assert "NO COPY of these partitions: they begin empty\n  t  0\n" in done.out.decode()


def test_metadata_that_is_still_there_is_refused(tmp_path: pathlib.Path) -> None:
    klog = collected(tmp_path, "broker1.klog", FIXTURES / "metadata" / "logdir")
    done = metadata(klog, "--output", tmp_path / "out")
    assert done.status == 3
    assert "still has __cluster_metadata up to offset" in done.err
    assert not (tmp_path / "out").exists()
    assert metadata(klog, "--rebuild-anyway").status == 0


def test_settings_come_from_a_file_with_sections(klog: pathlib.Path) -> None:
    file = klog.parent / "topics.ini"
    file.write_text("[t*]\ncleanup.policy=compact\nmin.insync.replicas=2\n")
    (topic,) = answer(metadata(klog, "--config-file", file, "--format", "json"))["topics"]
    given = {one["name"]: one["value"] for one in topic["settings"] if one["why"] == "given"}
    assert given == {"cleanup.policy": "compact", "min.insync.replicas": "2"}
    file.write_text("retention.ms=5\n")
    assert metadata(klog, "--config-file", file).status == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--topic-config", "t"),
        ("--topic-config", "t:retention.ms"),
        ("--topic-config", "t:retention.ms=soon"),
        ("--topic-config", "t:retention.mss=5"),
        ("--feature", "group.version"),
        ("--feature", "group.version=-1"),
        ("--feature", "group.version=99999"),
        ("--feature", "group.version=0000000099999"),
        ("--feature", "group\udcff=1"),
        ("--topic-config", "t:leader.replication.throttled.replicas=\udcff"),
        ("--feature", "group.version=²"),
        ("--topic-id", "t=short"),
        ("--next-producer-id", "-1"),
        ("--initial-controllers", "1@host:9093"),
        ("--initial-controllers", "1@host:99999:AAAAAAAAAAAAAAAAAAAAAA"),
        ("--initial-controllers", "1@a:1:AAAAAAAAAAAAAAAAAAAAAA,1@b:1:AAAAAAAAAAAAAAAAAAAAAA"),
        ("--initial-controllers", ""),
        ("--kafka", "5.0"),
    ],
)
def test_a_wrong_word_is_wrong_usage(klog: pathlib.Path, words: tuple[str, ...]) -> None:
    done = metadata(klog, *words)
    assert (done.status, done.out) == (2, b"")


def test_a_file_of_something_else_is_refused(tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.klog"
    other.write_bytes(b"\xff\x00 not a file of klogtool\n")
    assert metadata(other).status == 3
    assert metadata(tmp_path / "missing.klog").status == 2


def test_an_output_that_is_there_is_refused(klog: pathlib.Path) -> None:
    output = klog.parent / "out"
    output.mkdir()
    (output / "mine").write_text("keep")
    assert metadata(klog, "--output", output).status == 3
    assert [path.name for path in output.iterdir()] == ["mine"]
