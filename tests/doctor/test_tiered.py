"""What the doctor calls safe to lose is what free gives up, and ends at the first doubt, with the cause."""

from __future__ import annotations

import html
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from remote_stores import LOGS, STORE, WOUNDS, tiered_log_dir
from running import run_here

from klogtool.log.partition import Partition

Path = pathlib.Path
TIERED = ["--config", "remote.storage.enable=true", "--now", "2026-11-26"]


def rows(command: str, log_dir: Path, store: Path, kind: str, *words: str) -> list[dict[str, Any]]:
    done = run_here([command, str(log_dir), "--remote", str(store), *(words or TIERED), "--json"], log_dir.parent)
    assert done.status in (0, 1), done.err
    return [row for row in map(json.loads, done.out.splitlines()) if row["type"] == kind]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiered_log_dir(tmp_path_factory.mktemp("tiered"))


SYSTEM = "remote.log.storage.system.enable"
OF_A_BROKER = "log.dirs=/elsewhere\n"


@pytest.mark.parametrize(
    ("file", "words", "is_off"),
    [
        ("", [], False),
        (OF_A_BROKER, [], True),
        (f"{OF_A_BROKER}{SYSTEM}=true\n", [], False),
        (f"{OF_A_BROKER}{SYSTEM}=false\n", [f"{SYSTEM}=true"], False),
        ("", [f"{SYSTEM}=false"], True),
        ("[orders]\nretention.ms=-1\n", [], False),
    ],
)
def test_a_broker_without_remote_storage_serves_local_segments_only(
    file: str, words: list[str], is_off: bool, tmp_path: Path
) -> None:
    """A broker 4.3.1 that was started so served its tiered topic from the first local segment on."""
    (tmp_path / "server.properties").write_text(file)
    settings = [f"--config={word}" for word in ["remote.storage.enable=true", *words]]
    given = [*(["--config-file", "server.properties"] if file else []), *settings, "--now=2026-11-26", "--json"]
    done = run_here(["doctor", str(LOGS), *given], tmp_path)
    found = list(map(json.loads, done.out.splitlines()))
    starts = {Path(row["path"]).name: row["log_start_offset"] for row in found if row.get("about") == "partition"}
    off = {Path(row["path"]).name: row["last_offset"] + 1 for row in found if row.get("what") == "remote-off"}
    local = {"orders-0": 90, "orders-1": 30, "pay-0": 44}
    assert off == (local if is_off else {})
    assert local.items() <= starts.items() if is_off else not local.items() & starts.items()
    assert done.status == (1 if is_off else 0)


@pytest.mark.parametrize("line", [None, 3])
def test_without_a_line_the_start_of_a_tiered_log_is_unknown(
    built: tuple[Path, Path], tmp_path: Path, line: int | None
) -> None:
    """A broker 4.3.1 started such a log at 0, and at its first remote segment a moment later."""
    log_dir = shutil.copytree(built[0], tmp_path / "logs")
    for path in (log_dir / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    (log_dir / "log-start-offset-checkpoint").write_text("0\n0\n" if line is None else f"0\n1\nt 0 {line}\n")
    done = run_here(["doctor", str(log_dir), *TIERED, "--json"], tmp_path)
    claims = [row for row in map(json.loads, done.out.splitlines()) if row.get("about") == "partition"]
    (claim,) = [row for row in claims if row["path"].endswith("t-0")]
    assert (claim["log_start_offset"], claim["reason"]) == (line, "elsewhere")  # is it served? no metadata is here
    assert claim["log_end_offset"] is not None


@pytest.mark.parametrize(
    ("settings", "is_told"),
    [
        (["remote.storage.enable=true"], True),
        (["remote.storage.enable=true", "remote.log.copy.disable=true"], False),
        (["remote.storage.enable=false"], False),
        ([], False),  # nobody says that it is tiered
    ],
)
def test_a_closed_segment_without_a_producer_snapshot_is_never_copied(
    built: tuple[Path, Path], tmp_path: Path, settings: list[str], is_told: bool
) -> None:
    """tests/kafka/test_brokers_remote.py puts it to brokers."""
    log_dir = shutil.copytree(built[0], tmp_path / "logs")

    def told() -> list[str]:
        words = [*(f"--config={one}" for one in settings), "--now=2026-11-26", "--json"]
        rows = map(json.loads, run_here(["doctor", str(log_dir), *words], tmp_path).out.splitlines())
        return [row["detail"] for row in rows if row.get("what") == "copy-fails"]

    assert told() == []
    (log_dir / "t-0" / f"{80:020d}.snapshot").unlink()
    assert [f"{80:020d}.snapshot" in detail for detail in told()] == [True] * is_told
    cure = ["rebuild-index", str(log_dir / "t-0"), "--only", "snapshot", "--apply"]
    assert run_here(cure, tmp_path).status == 0
    assert told() == []


@pytest.mark.parametrize("lost", [None, 0, 1])
def test_a_store_shows_what_it_has_of_what_nobody_is_served(
    built: tuple[Path, Path], tmp_path: Path, lost: int | None
) -> None:
    """The first segment is in remote storage only. lost: the segment whose objects are gone."""
    log_dir, store = shutil.copytree(built[0], tmp_path / "logs"), shutil.copytree(built[1], tmp_path / "store")
    for path in (log_dir / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    for path in [] if lost is None else store.rglob(f"{40 * lost:020d}-*"):
        path.unlink()
    (point,) = [
        row
        for row in rows("doctor", log_dir, store, "ahead", *TIERED, f"--config={SYSTEM}=false")
        if row["what"] == "remote-off"
    ]
    assert (point["first_offset"], point["last_offset"]) == (0, 39)
    assert point["detail"].partition("; ")[2] == (
        "the store has objects of 0 of these 40 offsets only" if lost == 0 else "the store has objects of them all"
    )
    (part,) = rows("doctor", log_dir, store, "tiered", *TIERED, f"--config={SYSTEM}=false")
    assert (part["why"], part["detail"].partition(", but ")[2]) == ("not-tiered", "its broker has no remote storage")


def test_what_was_not_copied_yet_is_not_safe() -> None:
    found = {Path(row["path"]).name: row for row in rows("doctor", LOGS, STORE, "tiered")}
    ends = {name: (row["local_start_offset"], row["safe_offset"], row["log_end_offset"]) for name, row in found.items()}
    assert ends == {"orders-0": (90, 120, 130), "orders-1": (30, 60, 80), "pay-0": (44, 44, 78)}
    assert {row["why"] for row in found.values()} == {"not-served"}


def test_nothing_is_safe_if_nobody_says_that_the_topic_is_tiered() -> None:
    found = rows("doctor", LOGS, STORE, "tiered", *TIERED[2:])
    assert [(row["why"], row["safe_offset"] - row["local_start_offset"]) for row in found] == [("not-tiered", 0)] * 3


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3), st.sampled_from(WOUNDS))
def test_free_gives_up_what_the_doctor_calls_safe(
    built: tuple[Path, Path], tmp_path: Path, at: int, wound: Callable[[Path], None]
) -> None:
    log_dir, wounded = built[0], tmp_path / "wounded"
    shutil.rmtree(wounded, ignore_errors=True)
    shutil.copytree(built[1], wounded)
    wound(sorted(wounded.rglob("*.log"))[at])
    (row,) = rows("doctor", log_dir, wounded, "tiered")
    assert (row["safe_offset"], row["why"]) == (40 * at, "damaged")
    (plan,) = rows("free", log_dir, wounded, "plan")
    gone = {Path(item["path"]).name for item in plan["answer"]["items"]}
    ends = {Path(one.path).name: one.base_offset + 40 for one in Partition(str(log_dir / "t-0")).segments}
    assert gone == {name for name, end in ends.items() if end <= row["safe_offset"]}


def test_why_it_ends(built: tuple[Path, Path], tmp_path: Path) -> None:
    log_dir, store = shutil.copytree(built[0], tmp_path / "logs"), shutil.copytree(built[1], tmp_path / "store")
    for path in store.rglob(f"{80:020d}-*"):
        path.unlink()
    assert [(row["safe_offset"], row["why"]) for row in rows("doctor", log_dir, store, "tiered")] == [
        (80, "no-objects")
    ]
    (log_dir / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n9 40\n")
    assert [(row["safe_offset"], row["why"]) for row in rows("doctor", log_dir, store, "tiered")] == [
        (0, "other-lineage")
    ]


@pytest.mark.parametrize(
    "words", [["--remote", "x", "--quick"], ["--remote", "x", "--matrix"], ["--metadata", "x"], ["--key", "a=b"]]
)
def test_options_that_do_not_go_together(words: list[str]) -> None:
    assert run_here(["doctor", str(LOGS), *words], LOGS.parent).status == 2


def test_a_page_has_it_as_well(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["doctor", str(LOGS), "--remote", str(STORE), *TIERED]
    told = run_here([*words, "--html", str(page)], tmp_path).out
    assert told == run_here(["doctor", "--from", str(page)], tmp_path).out
    assert b"safe to lose" in told
    drawn = page.read_text().partition('<h2 id="remote">')[2].partition("</section>")[0]
    lines = [line.strip() for line in told.decode().splitlines() if "safe to lose" in line]
    assert len(lines) == drawn.count("<tr><th scope=row>") == 3
    for line in lines:
        name, _, what = line.partition("  ")[2].strip().partition(": ")
        assert html.escape(name) in drawn
        assert what in html.unescape(drawn)
