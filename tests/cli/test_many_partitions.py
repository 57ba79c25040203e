"""Log dirs of many partitions: what is wrong comes first and in full, what is not takes a line for all."""

from __future__ import annotations

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
from collections.abc import Callable

import pytest
from running import FIXTURES, KLOGTOOL, ROOT, Done, run_here

from klogtool.causes import from_text
from klogtool.render.worst_first import MOST_BLOCKS, WorstFirst
from klogtool.verify.findings import KINDS, Finding, Kind, Severity

KlogTool = Callable[..., Done]
COUNT, BAD = 40, "z-wounded-0"
LOG = "00000000000000000000.log"


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """So many sound partitions, and, last by name, one that loses records."""
    root = tmp_path_factory.mktemp("many")
    sound = FIXTURES / "leader-epochs/logdir/t-0"
    for n in range(COUNT):
        shutil.copytree(sound, root / f"t-{n:03}")
    shutil.copytree(sound, root / BAD)
    log = root / BAD / LOG
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    return root


def lines(done: Done) -> list[str]:
    return done.out.decode().splitlines()


def test_recover_begins_with_what_is_lost(klogtool: KlogTool, log_dir: pathlib.Path) -> None:
    told = lines(klogtool("recover", log_dir, folder=log_dir))
    assert re.match(rf"{BAD}: LOSES offsets [\d,]+ to [\d,]+;", told[0])
    assert f"{COUNT} others: nothing is lost" in told
    assert re.match(rf"In all: 1 of {COUNT + 1} partitions LOSES [\d,]+ offsets;", told[-2])
    assert len(told) < 20
    assert not any(line.startswith("t-0") for line in told)


def test_recover_counts_what_all_lose(klogtool: KlogTool, log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    root = tmp_path / "more"
    shutil.copytree(log_dir, root)
    shutil.copytree(root / BAD, root / "a-wounded-0")
    plans = [json.loads(line) for line in lines(klogtool("recover", root, "--format", "json", folder=root))]
    losses = [lost for plan in plans if (lost := plan.get("answer", {}).get("lost"))]
    offsets = sum(lost["last_offset"] - lost["first_offset"] + 1 for lost in losses)
    told = lines(klogtool("recover", root, folder=root))
    assert f"In all: 2 of {COUNT + 2} partitions LOSE {offsets:,} offsets;" in told[-2]
    assert [line.partition(":")[0] for line in told if "LOSES" in line] == ["a-wounded-0", BAD]


def test_verbose_names_all_and_the_files(klogtool: KlogTool, log_dir: pathlib.Path) -> None:
    told = lines(klogtool("recover", log_dir, "-v", folder=log_dir))
    assert told[0].startswith(BAD)
    assert sum(line.startswith("t-") for line in told) == COUNT
    assert any(re.match(rf"  (truncate|replace) +{LOG}", line) for line in told)


def test_json_stays_in_the_order_of_paths(klogtool: KlogTool, log_dir: pathlib.Path) -> None:
    for words in (["recover"], ["verify"]):
        rows = [json.loads(line) for line in lines(klogtool(*words, log_dir, "--format", "json", folder=log_dir))]
        paths = [row["path"] for row in rows if ("path" in row and BAD in row["path"]) or row.get("type") == "plan"]
        assert paths == sorted(paths)
        assert paths


def test_few_partitions_are_all_named(klogtool: KlogTool) -> None:
    told = lines(klogtool("recover", "two-disks/logdir", folder=FIXTURES))
    assert not any("others" in line for line in told)


@pytest.mark.parametrize(
    ("words", "summed"),
    [
        (["retain", "--config", "retention.ms=-1"], f"{COUNT + 1} partitions: nothing to delete"),
        (["compact", "--config", "cleanup.policy=delete"], f"{COUNT + 1} partitions: cleanup.policy has no compact"),
        (["txns"], f"{COUNT + 1} partitions without transactions (-v names them)"),
    ],
    ids=lambda words: words[0],
)
def test_where_nothing_happens_there_is_one_line(
    words: list[str], summed: str, klogtool: KlogTool, log_dir: pathlib.Path
) -> None:
    command, *more = words
    told = lines(klogtool(command, log_dir, *more, "--last-stop", "clean", folder=log_dir))
    assert summed in told
    assert len(told) < 5
    every = lines(klogtool(command, log_dir, *more, "-v", "--last-stop", "clean", folder=log_dir))
    assert sum(f"t-{n:03}" in line for n in range(COUNT) for line in every) >= COUNT


def test_apply_sums_up_the_plans_that_change_nothing(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    root, plan = tmp_path / "logs", tmp_path / "plan"
    shutil.copytree(log_dir, root)
    compact = ["compact", os.fspath(root), "--config", "cleanup.policy=delete", "--last-stop", "clean"]
    assert run_here([*compact, "--plan-out", os.fspath(plan)], tmp_path).status == 0
    told = lines(run_here(["apply", os.fspath(plan)], tmp_path))
    changing = [json.loads(line) for line in plan.read_text().splitlines()[1:]]
    idle = sum(not saved["steps"] for saved in changing)
    assert idle > 8
    assert any(re.fullmatch(rf"{idle} (others|partitions): nothing to do", line) for line in told)
    assert sum(line.startswith("Plan ") for line in told) == len(changing) - idle


# Findings.


def finding(finding_id: str, path: str = "/d/t-0/0.log") -> Finding:
    return Finding(Kind(finding_id), path, from_text("it is so"))


def held(findings: list[Finding]) -> WorstFirst:
    worst = WorstFirst(["/d"])
    for found in findings:
        worst.add(found)
    return worst


def test_the_most_dangerous_come_first() -> None:
    every = [finding(finding_id) for finding_id in sorted(KINDS)]
    shown = [item[-1] for item in held(every)._worst()]
    assert shown[0].id == "clean-marker-false"
    assert all(found.severity is Severity.ERROR for found in shown)
    some = held([finding("index-size"), finding("batch-crc"), finding("foreign-folder")])
    ids = [item[-1].id for item in some._worst()]
    assert ids == ["foreign-folder", "batch-crc", "index-size"]


def test_no_more_are_held_than_are_shown() -> None:
    worst = held([finding("batch-crc", f"/d/t-{n}/0.log") for n in range(100 * MOST_BLOCKS)])
    assert len(worst._held) <= 4 * MOST_BLOCKS
    assert [item[-1].path for item in worst._worst()] == [f"/d/t-{n}/0.log" for n in range(MOST_BLOCKS)]


def test_verify_shows_the_worst_and_counts_the_others(
    klogtool: KlogTool, log_dir: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    root = tmp_path / "unindexed"
    shutil.copytree(log_dir, root)
    for index in root.glob("t-*/*.index"):
        index.unlink()
    told = lines(klogtool("verify", root, folder=root))
    rows = [json.loads(line) for line in lines(klogtool("verify", root, "--format", "json", folder=root))]
    found = [row for row in rows if row["type"] == "finding" and row["severity"] != "info"]
    assert len(found) > MOST_BLOCKS
    assert told[0] == f"error    {BAD}/{LOG}"
    assert f"The {MOST_BLOCKS} above are the most dangerous of {len(found)} findings (-v shows all):" in told
    missing = sum(row["id"] == "index-missing" for row in found)
    assert any(re.fullmatch(rf"  warning +index-missing +{missing} +in {COUNT}", line) for line in told)
    assert told[told.index("The worst places:") + 1].startswith(f"  {BAD}  batch-crc 1")
    verbose = lines(klogtool("verify", root, "-v", folder=root))
    assert sum(line.startswith(("error ", "warning ")) for line in verbose) == len(found)
    assert told[-1] == verbose[-1]


def test_what_was_found_before_an_error_is_shown(
    klogtool: KlogTool, log_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from klogtool.cli import verify

    def interrupted(*_: object) -> object:
        yield finding("batch-crc", f"{log_dir}/t-0/{LOG}")
        raise KeyboardInterrupt

    monkeypatch.setattr(verify, "verify", interrupted)
    done = klogtool("verify", log_dir, folder=log_dir)
    assert done.status == 130
    assert lines(done)[0] == f"error    t-0/{LOG}"
    assert lines(done)[-1] == "Interrupted: the rest was not read."


@pytest.mark.slow
def test_progress_counts_partitions(log_dir: pathlib.Path, tmp_path: pathlib.Path) -> None:
    root = tmp_path / "hundred"
    shutil.copytree(log_dir, root)
    for n in range(100):
        shutil.copytree(log_dir / "t-000", root / f"u-{n}")
    for words in (["verify"], ["recover"]):
        master, slave = pty.openpty()
        with open(os.devnull, "wb") as sink:
            done = subprocess.Popen(
                [*KLOGTOOL, *words, root], stdin=subprocess.DEVNULL, stdout=sink, stderr=slave, cwd=ROOT
            )
            os.close(slave)
            seen = b""
            while piece := _read(master):
                seen += piece
            done.wait()
        assert f"of {COUNT + 101} partitions".encode() in seen


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody has its other end any more
        return b""
