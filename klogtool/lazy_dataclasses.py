"""Dataclasses that cost nearly nothing until the first object of one is made.

The standard library's import `inspect` and compile six methods for each class: half a millisecond, of which a command
that declares a hundred of them and uses ten waits for all. These know `frozen` and `slots` (always on), defaults,
factories, `repr=False`, `compare=False`, and fields of bases. `__init__` is compiled when it has been called some
times. To the functions of `dataclasses` they are dataclasses, and to type checkers those of the standard library.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field, astuple, dataclass, field, replace
    from typing import Any

    __all__ = ["astuple", "dataclass", "field", "replace"]
else:

    def dataclass(*, frozen: bool = False, slots: bool) -> Callable[[type], type]:
        """dataclasses.dataclass, for classes with slots."""
        return lambda cls: _made(cls, frozen=frozen)

    def field(**chosen: Any) -> _Field:
        """dataclasses.field: default, default_factory, repr, compare."""
        return _Field(chosen)

    def replace(made: Any, /, **changes: Any) -> Any:
        """dataclasses.replace."""
        return made.__class__(**{name: getattr(made, name) for name in made.__match_args__} | changes)

    def astuple(made: Any) -> tuple[Any, ...]:
        """dataclasses.astuple, for fields that hold no dataclass and nothing to copy."""
        return tuple([getattr(made, name) for name in made.__match_args__])


CALLS_UNCOMPILED = 3  # compiling takes as long as twenty calls


class _Field:
    """What `field` was called with, or a bare default."""

    __slots__ = ("chosen",)

    def __init__(self, chosen: dict[str, Any]) -> None:
        self.chosen = chosen


def _made(cls: type, *, frozen: bool) -> type:
    """The class anew: with slots, and with the methods of a dataclass that it does not have itself."""
    body = dict(vars(cls))
    names = tuple(body.get("__annotations__", ()))
    own = {name: _field(body.pop(name)) if name in body else _Field({}) for name in names}
    fields = _fields_of_bases(cls) | own
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    made = {"__slots__": names, "__match_args__": tuple(fields), "__qualname__": cls.__qualname__}
    return type(cls)(cls.__name__, cls.__bases__, _methods(fields, frozen=frozen) | body | made)


def _fields_of_bases(cls: type) -> dict[str, _Field]:
    found: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:]):
        if "__dataclass_fields__" in vars(base):
            found |= vars(base)["__dataclass_fields__"].fields
    return found


def _field(given: Any) -> _Field:
    return given if isinstance(given, _Field) else _Field({"default": given})


def _methods(fields: dict[str, _Field], *, frozen: bool) -> dict[str, Any]:
    key = _values_of([name for name in fields if fields[name].chosen.get("compare", True)])
    shown = [name for name in fields if fields[name].chosen.get("repr", True)]

    calls_left = iter(range(CALLS_UNCOMPILED))

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        values = _values(fields, args, kwargs) if next(calls_left, None) is not None else None
        if values is not None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            return
        cls = self.__class__
        cls.__init__ = _compiled_init(cls, fields, frozen=frozen)
        cls.__init__(self, *args, **kwargs)

    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self: Any, other: Any) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(key(self))

    methods = {"__init__": __init__, "__repr__": __repr__, "__eq__": __eq__, "__hash__": __hash__ if frozen else None}
    return methods | {"__dataclass_fields__": _Fields(fields)} | (_OF_FROZEN if frozen else {})


def _values(fields: dict[str, _Field], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """What goes into the fields; None where these are not the arguments of `__init__`, which is to say so."""
    values: dict[str, Any] = dict(zip(fields, args, strict=False))
    if len(args) > len(fields) or not kwargs.keys() <= fields.keys() - values.keys():
        return None
    values |= kwargs
    for name, field_ in fields.items():
        if name not in values:
            chosen = field_.chosen
            if not chosen.keys() & {"default", "default_factory"}:
                return None
            values[name] = chosen["default_factory"]() if "default_factory" in chosen else chosen["default"]
    return values


def _values_of(names: list[str]) -> Callable[[Any], Any]:
    return attrgetter(*names) if names else lambda _: ()


def _compiled_init(cls: type, fields: dict[str, _Field], *, frozen: bool) -> Any:
    """`__init__` with the fields for parameters. A frozen object's slots are set past its `__setattr__`."""
    known: dict[str, Any] = {"missing": object()}
    parameters, lines = ["self"], ["pass"]
    for name, field_ in fields.items():
        value, default = name, ""
        if "default_factory" in field_.chosen:
            known[f"factory_{name}"], default = field_.chosen["default_factory"], "=missing"
            value = f"factory_{name}() if {name} is missing else {name}"
        elif "default" in field_.chosen:
            known[f"default_{name}"], default = field_.chosen["default"], f"=default_{name}"
        known[f"set_{name}"] = getattr(cls, name).__set__
        parameters.append(name + default)
        lines.append(f"set_{name}(self, {value})" if frozen else f"self.{name} = {value}")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), known)
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


class _Fields:
    """`__dataclass_fields__`, by which `dataclasses` knows its own: made when it is asked for, once for each class."""

    def __init__(self, fields: dict[str, _Field]) -> None:
        self.fields = fields
        self._found: dict[type, dict[str, Field[Any]]] = {}

    def __get__(self, made: object, cls: type) -> dict[str, Field[Any]]:
        if cls not in self._found:
            self._found[cls] = self._make(cls)
        return self._found[cls]

    def _make(self, cls: type) -> dict[str, Field[Any]]:
        from dataclasses import field, make_dataclass

        types = {name: kind for base in reversed(cls.__mro__) for name, kind in _annotations(base)}
        fields = [(name, types[name], field(**f.chosen)) for name, f in self.fields.items()]
        found: dict[str, Field[Any]] = make_dataclass(cls.__name__, fields).__dataclass_fields__  # type: ignore[attr-defined]
        return found


def _annotations(cls: type) -> Any:
    return vars(cls).get("__annotations__", {}).items()


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__match_args__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__match_args__, state, strict=True):
        object.__setattr__(self, name, value)


_OF_FROZEN = {
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
    "__getstate__": _state,
    "__setstate__": _set_state,
}
