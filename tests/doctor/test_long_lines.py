"""A checkpoint may be one long line of damage. What the doctor and verify print of it is a line, not the file."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from running import run_here
from startup import HERE

from klogtool.format.names import OFFSET_CHECKPOINTS

FILES = [*(kind.value for kind in OFFSET_CHECKPOINTS), "t-0/leader-epoch-checkpoint", "t-0/partition.metadata"]


@pytest.mark.parametrize("command", ["doctor", "verify", "recover"])
@pytest.mark.parametrize("name", FILES)
def test_a_long_line_is_cited_in_part(name: str, command: str, tmp_path: pathlib.Path) -> None:
    disks = pathlib.Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    (disks / "d1" / name).write_text("x" * 100_000 if name.endswith("metadata") else f"0\n1\n{'x ' * 50_000}\n")
    for form in ("text", "json"):
        done = run_here([command, "d1", "--format", form], disks)
        assert len(done.out) + len(done.err) < 50_000, (form, done.status)
        assert done.status in (0, 1, 3, 4)
    cited = b"(100,000 characters)" in done.out or "(100,000 characters)" in done.err
    assert cited or command == "recover"  # it reads only what its partitions need
