"""recover of a log dir: which folders, by whose word, and when it may be marked clean."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from curing import carry_out, readable_records
from damage import flip_bit, tear_at
from deciding import decided
from loading import CONFIG, NOW_MS, data, make, name_of, result_of, segment
from running import FIXTURES, ROOT, run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.causes import words
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.plans.plan import Delete, Plan, Write

CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")
MARKER = ".kafka_cleanshutdown"


@pytest.fixture
def log_dir(tmp_path: pathlib.Path) -> pathlib.Path:
    """Partitions 0 and 1 of t, of two segments each; 0's log starts at 2."""
    for partition in (0, 1):
        make(tmp_path / f"t-{partition}", {0: segment(0), 4: segment(4)})
    (tmp_path / CHECKPOINTS[0]).write_text("0\n2\nt 0 4\nt 1 8\n")
    (tmp_path / CHECKPOINTS[1]).write_text("0\n1\nt 0 2\n")
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=NmugKK5HRqOZ6ob2pMJQaw\n")
    return tmp_path


def plans(log_dir: pathlib.Path, *, mark_clean: bool = False, **given: Any) -> list[Plan]:
    circumstances = Circumstances(now_ms=NOW_MS, config=CONFIG, **given)
    return list(decided("recover", str(log_dir), {**circumstances.as_arguments(), "jobs": 1, "mark_clean": mark_clean}))


def by_name(found: list[Plan]) -> dict[str, Plan]:
    return {pathlib.Path(plan.path).name: plan for plan in found}


def test_checkpoints_and_marker_decide_and_are_named(log_dir: pathlib.Path) -> None:
    first = by_name(plans(log_dir))["t-0"]
    assert (first.answer["recovered"], first.answer["log_start_offset"]) == ([4], 2)
    assert tuple(map(words, first.notes[:4])) == (
        "release: 4.3.1, the default",
        "last stop: unclean, there is no .kafka_cleanshutdown",
        "recovery point: 4, by recovery-point-offset-checkpoint",
        "log start offset: 2, by log-start-offset-checkpoint",
    )
    (log_dir / MARKER).write_bytes(b"")
    assert by_name(plans(log_dir))["t-0"].answer["recovered"] == []
    assert by_name(plans(log_dir, last_stop="unclean", recovery_point=0))["t-0"].answer["recovered"] == [0, 4]


def test_a_partition_dir_alone_goes_by_the_log_dir_around_it(log_dir: pathlib.Path) -> None:
    (alone,) = plans(log_dir / "t-0")
    assert alone == by_name(plans(log_dir))["t-0"]


def test_folders_that_a_broker_treats_otherwise(log_dir: pathlib.Path) -> None:
    doomed, stray = f"t-2.{'0' * 32}-delete", f"t-3.{'0' * 32}-stray"
    for name in (doomed, stray):
        shutil.copytree(log_dir / "t-0", log_dir / name)
    shutil.copytree(FIXTURES / "metadata/logdir/__cluster_metadata-0", log_dir / "__cluster_metadata-0")
    (log_dir / "remote-log-index-cache").mkdir()
    found = by_name(plans(log_dir))
    assert set(found) == {"t-0", "t-1", doomed, stray, "__cluster_metadata-0"}
    assert found[stray].answer["recovered"] == [0, 4]
    for name in (doomed, "__cluster_metadata-0"):
        assert found[name].steps == ()
        assert "skipped" in found[name].answer


@pytest.mark.parametrize("name", ["lost+found", "t", "t-x"])
def test_a_foreign_folder_is_refused(log_dir: pathlib.Path, name: str) -> None:
    (log_dir / name).mkdir()
    with pytest.raises(KlogError) as refused:
        plans(log_dir)
    assert (refused.value.kafka_class, refused.value.path) == ("KafkaException", str(log_dir / name))


def test_a_partition_that_is_there_twice_is_refused(log_dir: pathlib.Path) -> None:
    shutil.copytree(log_dir / "t-0", log_dir / "t-00")
    with pytest.raises(KlogError) as refused:
        plans(log_dir)
    assert refused.value.kafka_class == "IllegalStateException"


@pytest.mark.parametrize(("text", "is_refused"), [("hello\n", True), ("0\n1\nt 0 x\n", False)])
def test_a_checkpoint_that_cannot_be_read(log_dir: pathlib.Path, text: str, is_refused: bool) -> None:
    (log_dir / CHECKPOINTS[0]).write_text(text)
    if is_refused:
        with pytest.raises(Corrupt) as refused:
            plans(log_dir)
        assert refused.value.kafka_class == "KafkaStorageException"
    else:
        assert by_name(plans(log_dir))["t-0"].answer["recovered"] == [0, 4]
    assert by_name(plans(log_dir, recovery_point=4, log_start_offset=2))["t-0"].answer["recovered"] == [4]


# ---------------------------------------------------------------- marking clean


def test_checkpoints_and_marker_are_written_last(log_dir: pathlib.Path) -> None:
    tear_at(log_dir / "t-1" / name_of(4, "log"), 4 * len(data(0)) - 5)
    *_, root = plans(log_dir, mark_clean=True, recovery_point=0)
    assert root.path == str(log_dir)
    written = {step.path: step.content for step in root.steps if isinstance(step, Write)}
    assert list(written) == [*CHECKPOINTS, MARKER]
    assert written[CHECKPOINTS[0]] == (b"0\n2\nt 0 8\nt 1 7\n",)
    assert written[CHECKPOINTS[1]] == (b"0\n1\nt 0 2\n",)
    assert written[MARKER] == (b'{"version":0,"brokerEpoch":-1}',)


@pytest.mark.parametrize(
    "wound", ["flip below the recovery point", "tail behind a clean marker", "index of another log"]
)
def test_what_was_not_proved_is_not_marked(
    log_dir: pathlib.Path, wound: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    partition = log_dir / "t-0"
    if wound.startswith("flip"):
        flip_bit(partition / name_of(0, "log"), 70)
    elif wound.startswith("tail"):
        (log_dir / MARKER).write_bytes(b"")
        tear_at(partition / name_of(4, "log"), 4 * len(data(0)) - 5)
    else:
        (log_dir / MARKER).write_bytes(b"")
        (partition / name_of(4, "index")).write_bytes((3).to_bytes(4, "big") + (4 * len(data(0))).to_bytes(4, "big"))
    with pytest.raises(Refused, match="cannot be marked clean") as refused:
        plans(log_dir, mark_clean=True)
    records = readable_records(log_dir)
    carry_out(str(refused.value.cure), tmp_path_factory.mktemp("cwd"))
    assert plans(log_dir, mark_clean=True)[-1].answer["marked_clean"]
    assert not records - readable_records(log_dir)


def test_a_marker_that_is_there_goes_before_anything_is_recovered(log_dir: pathlib.Path) -> None:
    (log_dir / MARKER).write_bytes(b'{"version":0,"brokerEpoch":12}')
    first, *_, last = plans(log_dir, mark_clean=True, last_stop="unclean", recovery_point=0)
    assert first.steps == (Delete(MARKER),)
    marker = next(step for step in last.steps if isinstance(step, Write) and step.path == MARKER)
    assert marker.content == (b'{"version":0,"brokerEpoch":12}',)


# ---------------------------------------------------------------- a real broker's result


KILLED = FIXTURES / "killed-mid-append"
BROKERS_CLOCK_MS = 1_795_300_000_000  # most records are said to be years older: their producers have expired
AS_THE_BROKER_HAD_IT = {"log.index.size.max.bytes": "4096", "log.index.interval.bytes": "256"}


def check_against(before: pathlib.Path, after: pathlib.Path) -> None:
    """The same files, but for the leader epoch of the broker's own new life."""
    given = Circumstances(now_ms=BROKERS_CLOCK_MS, config=AS_THE_BROKER_HAD_IT)
    found = by_name(list(decided("recover", str(before), {**given.as_arguments(), "jobs": 1})))
    compared = [name for name in found if (after / name).is_dir()]
    assert compared
    for name in compared:
        ours = result_of(found[name])
        kafkas = {path.name: path.read_bytes() for path in (after / name).iterdir()}
        assert set(ours) == set(kafkas), name
        for file, content in kafkas.items():
            if file == "leader-epoch-checkpoint":
                lines = content.splitlines()
                assert ours[file].splitlines()[2:] in (lines[2:], lines[2:-1]), name
            else:
                assert ours[file] == content, f"{name}/{file}"


def test_a_killed_and_damaged_log_dir_ends_as_the_broker_left_it() -> None:
    check_against(KILLED / "logdir", KILLED / "after")


@pytest.mark.shared
@pytest.mark.parametrize("corpus", ["2.8.2-crash", "4.3.1-crash"])
def test_corpora_of_crashes(corpus: str) -> None:
    folder = ROOT.parent / "shared/corpus" / corpus
    if not folder.exists():
        pytest.skip(f"no ../shared/corpus/{corpus} beside the project")
    check_against(folder / "logdir", folder / "after")


@pytest.mark.parametrize("path", ["", "t-0"])
def test_no_line_is_left_above_the_end_of_a_log_that_recovery_cuts(log_dir: pathlib.Path, path: str) -> None:
    """As a broker leaves them that writes its checkpoints next. What lies elsewhere stays."""
    for name in (*CHECKPOINTS[:1], "replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        (log_dir / name).write_text("0\n2\nt 0 8\nother 3 50\n")
    tear_at(log_dir / "t-0" / name_of(4, "log"), 4 * len(data(0)) - 5)
    done = run_here(["recover", str(log_dir / path), "--apply", "--now", str(NOW_MS)], log_dir.parent)
    assert done.status == 1, done.err
    for name in (*CHECKPOINTS[:1], "replication-offset-checkpoint", "cleaner-offset-checkpoint"):
        assert (log_dir / name).read_text() == "0\n2\nt 0 7\nother 3 50\n", name
