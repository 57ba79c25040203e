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
    """A mutant that no test notices: the line before and after, and the reason."""

    file: str
    before: str
    after: str
    why: str


def rules() -> dict[str, Rule]:
    """Return the rules, by name."""
    return msgspec.toml.decode((HERE / "rules.toml").read_bytes(), type=dict[str, Rule])


def survivors() -> list[Survivor]:
    """Return the mutants that may survive."""
    return msgspec.toml.decode((HERE / "survivors.toml").read_bytes(), type=dict[str, list[Survivor]]).get("mutant", [])
