"""Whatever lies in one of two partition dirs, diff says what it could compare: no traceback, bounded memory."""

from __future__ import annotations

import os
import pathlib
import random

import pytest
from bad_input import FILES_OF_A_PARTITION, MEMORY_BYTES, garbage_for, writable_copy
from running import FIXTURES, Done, run_apart, with_memory

Path = pathlib.Path
ORIGINAL = FIXTURES / "transactions/logdir/t-0"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return writable_copy("transactions/logdir/t-0", tmp_path / "t-0")


def asked(partition: Path, *options: str) -> Done:
    done = run_apart("diff", partition, ORIGINAL, *options, before=with_memory(MEMORY_BYTES))
    assert "Traceback" not in done.err
    assert done.status in (0, 1)
    assert done.out
    return done


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES_OF_A_PARTITION)
def test_garbage_in_a_file(partition: Path, name: str) -> None:
    for data in garbage_for(partition / name):
        (partition / name).write_bytes(data)
        statuses = {asked(partition).status, asked(partition, "--deep").status}
        assert statuses == ({1} if name.endswith(".log") else {0})


@pytest.mark.parametrize("seed", range(5))
def test_bytes_by_chance(partition: Path, seed: int) -> None:
    rng = random.Random(seed)
    log = rng.choice(sorted(partition.glob("*.log")))
    data = bytearray(log.read_bytes())
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data))
        data[at : at + rng.randrange(60)] = rng.randbytes(rng.randrange(60))
    log.write_bytes(data)
    asked(partition)
    assert asked(partition, "--deep").status == 1


def test_a_log_that_is_a_hole(partition: Path) -> None:
    last = max(partition.glob("*.log"))
    os.truncate(last, 64 << 20)
    assert asked(partition).out.splitlines()[0] == b"t-0: A damaged; equal as far as both can be read"
