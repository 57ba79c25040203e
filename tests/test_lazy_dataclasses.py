"""A lazy dataclass is told from one of the standard library by nothing but when it is made."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from klogtool import lazy_dataclasses
from klogtool.lazy_dataclasses import astuple, dataclass, field, replace


@pytest.fixture(autouse=True, params=[0, lazy_dataclasses.CALLS_UNCOMPILED], ids=["compiled", "not yet compiled"])
def _(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the classes that a test declares."""
    monkeypatch.setattr(lazy_dataclasses, "CALLS_UNCOMPILED", request.param)


@dataclass(frozen=True, slots=True)
class Point:
    """One with everything."""

    x: int
    y: int = 7
    why: list[str] = field(default_factory=list, compare=False)
    raw: bytes = field(default=b"", repr=False, compare=False)

    @property
    def sum(self) -> int:
        return self.x + self.y


@dataclass(slots=True)
class Count:
    n: int = 0
    found: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No fields at all."""


def declared_by(module: Any, *, frozen: bool) -> type[Any]:
    """The same declaration by either module."""

    @module.dataclass(frozen=frozen, slots=True)
    class Same:
        """A doc."""

        a: int
        b: str = "b"
        c: list[int] = module.field(default_factory=list)
        d: bytes = module.field(default=b"d", repr=False, compare=False)

        def __str__(self) -> str:
            return f"<{self.a}>"

    return Same


def either_way(ask: Callable[[type[Any]], object], *, frozen: bool) -> tuple[object, object]:
    def answer(module: Any) -> object:
        try:
            return ask(declared_by(module, frozen=frozen))
        except (TypeError, AttributeError) as error:
            return type(error), str(error)

    return answer(lazy_dataclasses), answer(dataclasses)


def changed(made: Any, name: str, value: object) -> object:
    setattr(made, name, value)
    return made.a, made.b


def without(made: Any, name: str) -> bool:
    delattr(made, name)
    return hasattr(made, name)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(
    "ask",
    [
        lambda cls: repr(cls(1)),
        lambda cls: str(cls(1, "x")),
        lambda cls: repr(cls(a=1, b="x", c=[2], d=b"")),
        lambda cls: cls(),
        lambda cls: cls(1, "b", [], b"", 5),
        lambda cls: cls(1, e=5),
        lambda cls: cls(1, a=1),
        lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1) != cls(1), cls(1, d=b"") == cls(1), cls(1) == 1),
        lambda cls: cls(1) < cls(2),
        lambda cls: hash(cls(1, c=())) == hash(cls(1, c=())),
        lambda cls: hash(cls(1)),
        lambda cls: cls(1).c is cls(1).c,
        lambda cls: changed(cls(1), "b", "x"),
        lambda cls: changed(cls(1), "no_field", "x"),
        lambda cls: without(cls(1), "b"),
        lambda cls: dataclasses.asdict(cls(1)),
        lambda cls: dataclasses.astuple(cls(1)),
        lambda cls: repr(dataclasses.replace(cls(1), b="x")),
        lambda cls: [(f.name, f.type, f.default, f.repr, f.compare) for f in dataclasses.fields(cls)],
        lambda cls: (dataclasses.is_dataclass(cls), dataclasses.is_dataclass(cls(1))),
        lambda cls: (cls.__slots__, cls.__match_args__, cls.__doc__, cls.__name__, cls.__module__, cls.__qualname__),
        lambda cls: repr(copy.copy(cls(1, c=[3]))),
        lambda cls: repr(copy.deepcopy(cls(1, c=[3]))),
        lambda cls: hasattr(cls(1), "__dict__"),
    ],
)
def test_it_answers_as_the_standard_library_does(ask: Callable[[type[Any]], object], *, frozen: bool) -> None:
    ours, theirs = either_way(ask, frozen=frozen)
    if isinstance(ours, tuple) and ours[0] is dataclasses.FrozenInstanceError:
        assert isinstance(theirs, tuple)
        assert theirs[0] in (dataclasses.FrozenInstanceError, TypeError)  # theirs has super() of the class before
        return
    assert ours == theirs


@pytest.mark.parametrize("made", [Point(1, why=["so"]), Count(3, [4]), Nothing()], ids=repr)
def test_it_goes_to_another_process_and_comes_back(made: object) -> None:
    back = pickle.loads(pickle.dumps(made))
    assert back == made
    assert repr(back) == repr(made)


def test_replace_and_astuple() -> None:
    assert replace(Point(1, 2, ["so"]), y=3) == Point(1, 3)
    assert replace(Point(1, 2, ["so"]), y=3).why == ["so"]
    assert astuple(Point(1, 2, raw=b"r")) == (1, 2, [], b"r")
    assert Point(1).sum == 8


def test_fields_of_a_base_come_first() -> None:
    @dataclass(frozen=True, slots=True)
    class Weighed(Point):
        weight: int = 3

    assert repr(Weighed(1)).endswith("Weighed(x=1, y=7, why=[], weight=3)")
    assert (Weighed(1, weight=4) == Weighed(1), Weighed(1) == Point(1), Weighed(1).sum) == (False, False, 8)
    assert [(f.name, f.type) for f in dataclasses.fields(Weighed)][3:] == [("raw", "bytes"), ("weight", "int")]
    assert not hasattr(Weighed(1), "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Weighed(1).weight = 2  # type: ignore[misc]
