"""klogtool doctor: the verdict, the options, and plans of options that mend."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
from typing import Any

import pytest
from running import FIXTURES, Done, run_here

NOW = ("--now", "1700000300000")


@pytest.fixture
def killed(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log dir of a broker that was killed; one partition has a flipped bit, another a torn batch."""
    return pathlib.Path(shutil.copytree(FIXTURES / "killed-mid-append" / "logdir", tmp_path / "logdir"))


def doctor(folder: pathlib.Path, *more: str) -> Done:
    return run_here(["doctor", "logdir", *NOW, *more], folder)


def rows(done: Done, kind: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, done.out.splitlines()) if row["type"] == kind]


def test_the_verdict_counts_what_the_start_loses(killed: pathlib.Path) -> None:
    done = doctor(killed.parent, "--format", "json")
    (verdict,) = rows(done, "verdict")
    assert done.status == 1
    assert (verdict["starts"], verdict["lost_records"], verdict["kafka"]) == ("loses-data", 21, "4.3.1")
    assert verdict["all_lost_are_counted"] is True
    assert verdict["bytes_to_scan"] > 0
    assert [(pathlib.Path(row["path"]).name, row["what"]) for row in rows(done, "ahead")] == [
        ("flip-bit-0", "truncated"),
        ("flip-bit-0", "missing"),
        ("torn-tail-0", "truncated"),
    ]


def test_options_are_numbered_and_the_cheapest_comes_first(killed: pathlib.Path) -> None:
    options = rows(doctor(killed.parent, "--format", "json"), "option")
    assert [option["number"] for option in options] == list(range(1, len(options) + 1))
    mine = [option for option in options if option["for"].endswith("flip-bit-0")]
    assert [(option["strategy"], option["lost_records"]) for option in mine[:2]] == [
        ("damaged-only", 0),
        ("as-the-broker", 21),
    ]


def test_a_batch_that_nobody_could_read_is_no_loss_of_the_start(killed: pathlib.Path) -> None:
    """Of the torn batch only 16 bytes are left. They are cut, and that is told."""
    shutil.rmtree(killed / "flip-bit-0")
    done = doctor(killed.parent, "--format", "json")
    (point,) = [row for row in rows(done, "ahead") if row["what"] != "absent"]  # the checkpoints know flip-bit-0
    assert (done.status, rows(done, "verdict")[0]["starts"], point["what"]) == (1, "yes", "truncated")
    assert {row["lost"]["records"] for row in rows(done, "claim") if row["about"] == "partition"} == {0}
    assert b"no record that can be read is lost" in doctor(killed.parent).out.replace(b"\n            ", b" ")


def test_what_is_gone_already_is_never_a_loss_of_the_start_and_its_witness_stays(killed: pathlib.Path) -> None:
    """A checkpoint was edited to an offset that the log never had."""
    checkpoint = killed / "replication-offset-checkpoint"
    lines = [re.sub(r"^zero-tail 0 .*", "zero-tail 0 100000", line) for line in checkpoint.read_text().splitlines()]
    checkpoint.write_text("\n".join(lines) + "\n")
    for name in ("flip-bit-0", "torn-tail-0"):
        shutil.rmtree(killed / name)
    done = doctor(killed.parent, "--format", "json")
    claim = next(row for row in rows(done, "claim") if str(row.get("path")).endswith("zero-tail-0"))
    assert claim["lost"] == {"records": 0, "ranges": [], "reason": None}
    assert claim["gone_already"] == {
        "ranges": [[71, 99999]],
        "witness": ["high-watermark"],
        "reason": None,
        "perhaps": [],
    }
    assert rows(done, "verdict")[0]["starts"] == "yes"
    options = rows(done, "option")
    assert all(option["lost_records"] != 0 for option in options)
    erasing = [row["number"] for row in rows(done, "claim") if row.get("erases_witness")]
    assert erasing == [options[-1]["number"]]
    assert doctor(killed.parent, "--fix").out == b""


def test_a_plan_of_options_mends_and_undo_takes_it_back(killed: pathlib.Path) -> None:
    before = {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()}
    assert doctor(killed.parent, "--fix", "--plan-out", "plan.json").status in (0, 1)
    assert {path: path.read_bytes() for path in before} == before
    assert run_here(["apply", "plan.json"], killed.parent).status in (0, 1)
    after = doctor(killed.parent, "--format", "json")
    assert (after.status, rows(after, "ahead")) == (0, [])
    assert run_here(["undo", "logdir"], killed.parent).status == 0
    assert {path: path.read_bytes() for path in killed.rglob("*") if path.is_file()} == before


def test_a_chosen_option_is_the_one_that_is_planned(killed: pathlib.Path) -> None:
    done = doctor(killed.parent, "--fix", "--option", "2", "--format", "json")
    plans = [(plan["command"], pathlib.Path(plan["path"]).name) for plan in rows(done, "plan")]
    assert plans[0] == ("recover", "flip-bit-0")
    assert "torn-tail-0" not in dict(plans).values()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (("--option", "1"), 2),
        (("--plan-out", "p"), 2),
        (("--fix", "--quick"), 2),
        (("--fix", "--matrix"), 2),
        (("--fix", "--option", "99"), 3),
        (("--fix", "--option", "3"), 3),
        (("--kafka", "0.11"), 2),
    ],
)
def test_wrong_usage_is_refused_in_one_line(killed: pathlib.Path, more: tuple[str, ...], status: int) -> None:
    done = doctor(killed.parent, *more)
    assert done.status == status
    assert "Traceback" not in done.err


def test_a_sound_log_dir_has_nothing_to_report() -> None:
    done = run_here(["doctor", str(FIXTURES / "metadata" / "logdir"), *NOW], FIXTURES)
    assert done.status == 0
    assert b"lose nothing" in done.out


def test_the_matrix_has_every_release_and_says_which_do_not_know_the_level() -> None:
    done = run_here(["doctor", str(FIXTURES / "metadata" / "logdir"), "--matrix", "--format", "json", *NOW], FIXTURES)
    verdicts = {row["kafka"]: row for row in rows(done, "verdict")}
    assert verdicts["4.3.1"]["starts"] == verdicts["4.4.0"]["starts"] == "yes"
    assert verdicts["3.9.2"]["starts"] == "refuses"
    assert "knows 1 to 23 only" in verdicts["3.9.2"]["why"]


def test_quick_loads_no_log_and_says_so(killed: pathlib.Path) -> None:
    done = doctor(killed.parent, "--quick", "--format", "json")
    (verdict,) = rows(done, "verdict")
    assert verdict["seconds_estimated"] is None
    assert any("--quick" in note for note in verdict["notes"])


def test_an_unclean_stop_costs_the_broker_its_place_in_the_isr(tmp_path: pathlib.Path) -> None:
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "metadata" / "logdir", tmp_path / "logdir"))
    assert not any("ISR" in note for note in rows(doctor(tmp_path, "--format", "json"), "verdict")[0]["notes"])
    (log_dir / ".kafka_cleanshutdown").unlink()
    assert any("ISR" in note for note in rows(doctor(tmp_path, "--format", "json"), "verdict")[0]["notes"])


@pytest.mark.slow
def test_a_log_dir_of_a_broker_with_zookeeper_is_not_for_a_release_without_it(tmp_path: pathlib.Path) -> None:
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "magic-1" / "logdir", tmp_path / "logdir"))
    kraft, zookeeper = (
        rows(doctor(tmp_path, "--format", "json", "--kafka", kafka), "verdict")[0] for kafka in ("4.0", "3.9")
    )
    assert (kraft["starts"], zookeeper["starts"]) == ("refuses", "yes")
    told = doctor(tmp_path, "--kafka", "4.0").out.decode()
    assert "KIP-866" in told
    assert "Write the file again" not in told  # the start would set all partitions aside
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    (kraft,) = rows(doctor(tmp_path, "--format", "json"), "verdict")
    assert kraft["starts"] == "loses-data"


def test_a_log_dir_of_a_broker_with_zookeeper_that_has_topic_ids(tmp_path: pathlib.Path) -> None:
    """A broker 4.3.1 with KRaft took such a log dir, and set all its partitions aside. One with a directory.id was
    migrated, or is being migrated."""
    log_dir = pathlib.Path(shutil.copytree(FIXTURES / "transactions" / "logdir", tmp_path / "logdir"))
    for more, starts in (("", "loses-data"), ("directory.id=8wl-LckyKCB52erXVaWMyQ\n", "yes")):
        (log_dir / "meta.properties").write_text(f"version=0\nbroker.id=1\ncluster.id=abc\n{more}")
        (verdict,) = rows(doctor(tmp_path, "--format", "json"), "verdict")
        assert verdict["starts"] == starts
    (log_dir / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=abc\n")
    (verdict,) = rows(doctor(tmp_path, "--format", "json", "--kafka", "3.9"), "verdict")
    assert verdict["starts"] == "yes"


def test_host_adds_what_the_machine_does_to_the_logs(killed: pathlib.Path) -> None:
    host = rows(doctor(killed.parent, "--host", "--format", "json"), "host")
    assert {"vm.max_map_count", "open files"} <= {row["name"] for row in host}
    assert rows(doctor(killed.parent, "--format", "json"), "host") == []


def test_a_folder_that_is_no_log_dir_is_an_error(tmp_path: pathlib.Path) -> None:
    done = run_here(["doctor", str(FIXTURES / "metadata" / "logdir" / "topic-0-0")], tmp_path)
    assert done.status == 2
    assert "not a log dir" in done.err


# The end of a partition dir's name.


@pytest.mark.parametrize("state", ["stray", "future", "delete"])
@pytest.mark.parametrize("quick", [[], ["--quick"]], ids=["whole", "quick"])
def test_a_folder_that_serves_nobody_is_not_called_a_clean_partition(
    tmp_path: pathlib.Path, state: str, quick: list[str]
) -> None:
    root = tmp_path / "logs"
    shutil.copytree(FIXTURES / "leader-epochs/logdir", root)
    (root / "t-0").rename(root / f"t-0.{'0123456789abcdef' * 2}-{state}")
    told = run_here(["doctor", str(root), *quick], tmp_path).out.decode()
    assert "partition: clean" not in told
    rows = [json.loads(line) for line in run_here(["doctor", str(root), "--format", "json"], tmp_path).out.splitlines()]
    assert [row["state"] for row in rows if row["type"] == "partition"] == [state]
    if state != "delete":
        assert "serves nobody" in " ".join(told.split())


# A cause is a field, not a word.


def two_log_dirs(tmp_path: pathlib.Path, names: list[str], change: dict[str, tuple[str, str]]) -> list[str]:
    """Empty log dirs of one broker, of which a line of the second one's meta.properties is changed."""
    for n, name in enumerate(names):
        lines = [
            "version=1",
            "node.id=1",
            "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ",
            f"directory.id=AAAAAAAAAAAAAAAAAAAA{n}Q",
        ]
        text = "\n".join(lines) + "\n"
        if n == 1:
            for before, after in change.values():
                assert before in text
                text = text.replace(before, after)
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(text)
    return [str(tmp_path / name) for name in names]


def titles(log_dirs: list[str], folder: pathlib.Path) -> list[str]:
    done = run_here(["doctor", *log_dirs, "--format", "json"], folder)
    return [row["title"] for row in rows(done, "option")]


@pytest.mark.parametrize("first", ["directory.id", "reserved", "d1"])
def test_the_name_of_a_folder_is_no_cause(tmp_path: pathlib.Path, first: str) -> None:
    log_dirs = two_log_dirs(tmp_path, [first, "d2"], {"node": ("node.id=1", "node.id=2")})
    assert not [title for title in titles(log_dirs, tmp_path) if "directory.id" in title]


@pytest.mark.parametrize("version", ["reserved", "directory.id", "7"])
def test_a_text_of_the_file_is_no_cause(tmp_path: pathlib.Path, version: str) -> None:
    log_dirs = two_log_dirs(tmp_path, ["d1", "d2"], {"version": ("version=1", f"version={version}")})
    assert not [title for title in titles(log_dirs, tmp_path) if "delete its directory.id" in title]


def test_a_reserved_id_is_a_cause(tmp_path: pathlib.Path) -> None:
    reserved = {"id": ("directory.id=AAAAAAAAAAAAAAAAAAAA1Q", "directory.id=AAAAAAAAAAAAAAAAAAAAAQ")}
    log_dirs = two_log_dirs(tmp_path, ["d1", "d2"], reserved)
    assert [title for title in titles(log_dirs, tmp_path) if "delete its directory.id" in title]


def test_damaged_bytes_behind_a_clean_end_hide_nothing_yet(tmp_path: pathlib.Path) -> None:
    """A producer's next records come behind them."""
    log_dir = shutil.copytree(FIXTURES / "leader-epochs/logdir", tmp_path / "logdir")
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    with open(max((log_dir / "t-0").glob("*.log")), "ab") as log:
        log.write(bytes(range(1, 100)))
    done = doctor(tmp_path)
    first = done.out.decode().split("  as of")[0]
    assert "RISK NEW DATA in 1 of 1 partition" in first
    assert "HIDE" not in first
    (claim,) = (row for row in rows(doctor(tmp_path, "--format=json"), "claim") if row["about"] == "partition")
    assert (claim["hidden"]["records"], claim["lost"]["records"]) == (0, 0)
