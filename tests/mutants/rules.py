"""Which modules are rules, which tests hold them, and which mutants may survive."""

from __future__ import annotations

import pathlib

import msgspec
from msgspec import Struct

HERE = pathlib.Path(__file__).parent


class Rule(Struct, frozen=True):
    """modules: below klogtool/. tests: files or folders."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


class Survivor(Struct, frozen=True):
    """A mutant that no test notices: the line before and after, and the reason. function: `Class.method`, "" outside of
    all. nth: which of the same lines in it, from 1."""

    file: str
    function: str
    before: str
    after: str
    why: str
    nth: int = 1

    @property
    def name(self) -> tuple[str, str, int, str, str]:
        """That of the mutant."""
        return self.file, self.function, self.nth, self.before, self.after


def rules() -> dict[str, Rule]:
    """Return the rules, by name."""
    return msgspec.toml.decode((HERE / "rules.toml").read_bytes(), type=dict[str, Rule])


def survivors() -> list[Survivor]:
    """Return the mutants that may survive."""
    return msgspec.toml.decode((HERE / "survivors.toml").read_bytes(), type=dict[str, list[Survivor]]).get("mutant", [])
