"""--replica: which copy of other brokers is whole where this one is damaged, and the cure, carried out."""

from __future__ import annotations

import json
import pathlib
import shutil

from damage import flip_bit
from running import in_shell, run_here
from scrub.scrubbed import closed_logs, make_log_dir, scrub

from klogtool.copies.record_hash import hash_partition

Path = pathlib.Path


def hash_lines(log_dir: Path) -> Path:
    """The lines of a broker, in a file."""
    lines = log_dir.with_name(f"{log_dir.name}.jsonl")
    lines.write_bytes(run_here(["hash", str(log_dir), "--json"], log_dir).out)
    return lines


def test_a_whole_copy_cures_what_is_damaged_here(tmp_path: Path) -> None:
    mine = make_log_dir(tmp_path / "mine", partitions=1)
    brokers = {name: Path(shutil.copytree(mine, tmp_path / name)) for name in ("whole", "before", "behind", "short")}
    log = closed_logs(mine)[1]
    flip_bit(log, 100)
    flip_bit(closed_logs(brokers["before"])[0], 100)
    flip_bit(closed_logs(brokers["behind"])[2], 100)
    closed_logs(brokers["short"])[0].unlink(), closed_logs(brokers["short"])[0].unlink()  # by retention
    lines = [word for path in brokers.values() for word in ("--replica", hash_lines(path))]
    done = scrub(tmp_path / "state", mine, *lines)
    (finding,) = done.findings
    states = {row["name"].removesuffix(".jsonl"): row["state"] for row in finding["copies"]}
    assert states == {"whole": "whole", "before": "damaged", "behind": "whole", "short": "unknown"}
    cure, _, told = finding["cure"].partition("  # COPY: ")
    assert told == f"the copy of whole.jsonl, {brokers['whole']}/orders-0"
    command = cure.replace("COPY", f"'{brokers['whole']}/orders-0'").replace("DIR", "saved")
    assert in_shell(command, tmp_path)[1] in (0, 1)
    saved, whole = (hash_partition(str(path)).digest for path in (tmp_path / "saved", brokers["whole"] / "orders-0"))
    assert saved == whole is not None


def test_hash_lines_that_are_none(tmp_path: Path) -> None:
    mine = make_log_dir(tmp_path / "mine", partitions=1)
    deep = "[" * 100_000
    for text in ("", "x", "{}", deep, '{"type":"answer","partition":"x"}', json.dumps({"type": "summary"})):
        (tmp_path / "lines").write_text(text)
        done = scrub(tmp_path / "state", mine, "--replica", tmp_path / "lines")
        assert (done.status, "Traceback" in done.err) == (4, False), text
