"""What mends a finding, as a command to copy where there is one."""

from __future__ import annotations

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")  # to a shell


def quoted(path: str) -> str:
    """As one word of a shell's (shlex.quote, which takes longer to import than a small file to verify)."""
    return path if path and _PLAIN.issuperset(path) else "'" + path.replace("'", "'\"'\"'") + "'"


def rebuild_index(folder: str, only: str) -> str:
    """To build the side files of one kind anew: `txnindex`, `snapshot`, `leader-epoch-checkpoint`."""
    return f"klogtool rebuild-index {quoted(folder)} --only {only} --apply"


def recover(path: str) -> str:
    """To see what a broker's start makes of it."""
    return f"klogtool verify --recover {quoted(path)}"


def move_out(path: str) -> str:
    """To get it out of a broker's way, and keep it."""
    return f"move {quoted(path)} out of there"


def renaming(path: str, to: str) -> str:
    """To give it its right name."""
    return f"mv {quoted(path)} {quoted(to)}"


def remove(path: str, price: str) -> str:
    """To have a broker begin it anew; price: what that costs, or why it costs nothing."""
    return f"rm {quoted(path)}  # {price}"
