"""What mends a finding, as a command to copy where there is one."""

from __future__ import annotations

import shlex


def rebuild_index(folder: str, only: str) -> str:
    """To build the side files of one kind anew: `txnindex`, `snapshot`, `leader-epoch-checkpoint`."""
    return f"klogtool rebuild-index {shlex.quote(folder)} --only {only} --apply"


def recover(path: str) -> str:
    """To see what a broker's start makes of it."""
    return f"klogtool verify --recover {shlex.quote(path)}"


def move_out(path: str) -> str:
    """To get it out of a broker's way, and keep it."""
    return f"move {shlex.quote(path)} out of there"


def renaming(path: str, to: str) -> str:
    """To give it its right name."""
    return f"mv {shlex.quote(path)} {shlex.quote(to)}"


def remove(path: str, price: str) -> str:
    """To have a broker begin it anew; price: what that costs, or why it costs nothing."""
    return f"rm {shlex.quote(path)}  # {price}"
