"""Records that only a left-over has: `verify` says so as an error, and its cures, in any order, keep them.

A start deletes `.deleted` and `.cleaned` files. What no broker meant to delete is put back before anything else.
"""

from __future__ import annotations

import json
import pathlib
import random
import shutil

import pytest
from curing import MOST_ROUNDS, carry_out, readable_records, verified
from damage import flip_bit
from running import FIXTURES, run_here

NOW_MS = 1_800_000_000_000
SOURCE = FIXTURES / "transactions" / "logdir"
BASES = (0, 7, 36, 38)
MARKERS = (b"\0\0\0\0", b"\0\0\0\1")  # keys of control records: one alone is no record


def leave_alone(rng: random.Random, log_dir: pathlib.Path) -> None:
    """A segment has the name of a left-over; or it is damaged, and a left-over is its sound copy."""
    partition, base = log_dir / "t-0", rng.choice(BASES[1:])
    log = partition / f"{base:020d}.log"
    copy = log.with_name(log.name + rng.choice((".deleted", ".deleted", ".deleted", ".cleaned")))
    if base == 38 or rng.random() < 0.6:
        log.rename(copy)
        for side in partition.glob(f"{base:020d}.*[gx]"):
            rng.choice((lambda: None, side.unlink if side != copy else lambda: None))()
    elif copy.suffix == ".deleted":
        shutil.copy(log, copy)
        flip_bit(log, rng.randrange(61, log.stat().st_size), 3)
    if rng.random() < 0.5:
        (log_dir / ".kafka_cleanshutdown").unlink()


def lost(log_dir: pathlib.Path) -> int | None:
    done = run_here(["doctor", "logs", "--json", "--now", str(NOW_MS)], log_dir.parent)
    rows = [json.loads(line) for line in done.out.splitlines()]
    return next(r["lost"]["records"] for r in rows if r.get("about") == "partition" and r["path"].endswith("/t-0"))


@pytest.mark.some(12)
@pytest.mark.parametrize("seed", range(120))
def test_what_only_a_left_over_has_is_kept_by_cures_in_any_order(seed: int, tmp_path: pathlib.Path) -> None:
    rng, log_dir = random.Random(seed), tmp_path / "logs"
    shutil.copytree(SOURCE, log_dir)
    whole = readable_records(log_dir)
    leave_alone(rng, log_dir)
    found = verified(["logs"], tmp_path, NOW_MS)
    assert not lost(log_dir) or any(told.severity == "error" and told.id.startswith("leftover") for told in found)
    for _ in range(MOST_ROUNDS):
        cures = [told.cure for told in found if told.is_command]
        if not cures:
            break
        carry_out(rng.choice(cures), tmp_path)
        found = verified(["logs"], tmp_path, NOW_MS)
    assert not [record for record in whole - readable_records(log_dir) if record[4] not in MARKERS]
    assert not lost(log_dir)


@pytest.mark.some(12)
@pytest.mark.parametrize("seed", range(60))
def test_what_salvage_and_transplant_do_not_keep_of_a_left_over_is_told(seed: int, tmp_path: pathlib.Path) -> None:
    rng, log_dir = random.Random(seed), tmp_path / "logs"
    shutil.copytree(SOURCE, log_dir)
    whole = {record for record in readable_records(log_dir) if record[:2] == ("t", 0) and record[4] not in MARKERS}
    leave_alone(rng, log_dir)
    now = ("--now", str(NOW_MS))
    for name in ("kept", "moved"):
        (tmp_path / name).mkdir()
    done = run_here(["salvage", "logs/t-0", "--json", *now], tmp_path)
    assert run_here(["salvage", "logs/t-0", "--output", "kept/t-0", *now], tmp_path).status == done.status
    (answer,) = (row["answer"] for row in map(json.loads, done.out.splitlines()) if row["type"] == "plan")
    told = {each for loss in answer["lost"] for each in range(loss["first_offset"], loss["last_offset"] + 1)}
    gone = {record[2] for record in whole - readable_records(tmp_path / "kept")}
    assert (gone <= told, done.status) == (True, int(bool(told)))
    put_to = ("--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--output", "moved/t-0", "--forget-open-transactions")
    if run_here(["transplant", "logs/t-0", *put_to, *now], tmp_path).status == 0:
        assert {record[2] for record in whole} <= {record[2] for record in readable_records(tmp_path / "moved")}


def swap_with_damage(rng: random.Random, log_dir: pathlib.Path) -> None:
    """The only copy of a segment is a `.swap` that a start makes a segment of; one bit of its records is wrong."""
    log = log_dir / "t-0" / f"{rng.choice(BASES[:3]):020d}.log"
    swap = log.rename(log.with_name(f"{log.name}.swap"))
    for kind in (".index", ".timeindex"):
        if rng.random() < 0.7:
            log.with_suffix(kind).rename(log.with_name(f"{log.stem}{kind}.swap"))
    flip_bit(swap, rng.randrange(21, swap.stat().st_size), rng.randrange(8))
    if rng.random() < 0.5:
        (log_dir / ".kafka_cleanshutdown").unlink()


@pytest.mark.some(8)
@pytest.mark.parametrize("seed", range(48))
def test_damage_in_a_swap_is_cured_and_does_not_move_into_the_log(seed: int, tmp_path: pathlib.Path) -> None:
    rng, log_dir = random.Random(seed), tmp_path / "logs"
    shutil.copytree(SOURCE, log_dir)
    swap_with_damage(rng, log_dir)
    kept = readable_records(log_dir)
    found = verified(["logs"], tmp_path, NOW_MS)
    assert not [one for one in found if one.id == "segment-gap"]
    (cure,) = {one.cure for one in found if one.path.endswith(".log.swap")}
    carry_out(cure, tmp_path)
    assert [one for one in verified(["logs"], tmp_path, NOW_MS) if one.severity == "error"] == []
    assert readable_records(log_dir) == kept


@pytest.mark.some(8)
@pytest.mark.parametrize("seed", range(48))
def test_what_the_doctor_advises_for_damage_in_a_swap_helps(seed: int, tmp_path: pathlib.Path) -> None:
    rng, log_dir = random.Random(seed), tmp_path / "logs"
    shutil.copytree(SOURCE, log_dir)
    swap_with_damage(rng, log_dir)
    kept = readable_records(log_dir)
    words = ["doctor", "logs", "--now", str(NOW_MS)]
    rows = [json.loads(line) for line in run_here([*words, "--json"], tmp_path).out.splitlines()]
    damaged = [row for row in rows if row["type"] == "ahead" and row["what"] == "damaged"]
    numbers = [row["number"] for row in rows if row["type"] == "option" and " COPY " not in row["command"]]
    assert bool(numbers) >= bool(damaged)
    for number in numbers[:1]:
        assert run_here([*words, "--fix", "--option", str(number), "--plan-out", "plan.json"], tmp_path).status == 0
        assert run_here(["apply", "plan.json"], tmp_path).status in (0, 1)
        again = [json.loads(line) for line in run_here([*words, "--json"], tmp_path).out.splitlines()]
        assert [row for row in again if row["type"] == "ahead" and row["what"] == "damaged"] == []
        assert readable_records(log_dir) == kept
