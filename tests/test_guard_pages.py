"""No kernel touches a byte that is not its own: each runs in a process that would die of it (guard_pages.py)."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from guard_pages import KERNELS
from running import ROOT

from klogtool import kernels

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")


def run(kernel: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, str(ROOT / "tests" / "guard_pages.py"), kernel]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=200, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_flush_against_a_forbidden_page_and_cut_at_every_length(kernel: str) -> None:
    done = run(kernel)
    assert done.returncode == 0, done.stderr.decode()


def test_a_byte_too_far_would_have_been_noticed() -> None:
    assert run("overrun").returncode == -signal.SIGSEGV
