"""Parameters of questions: each is declared once, as a field of a frozen struct, with its type, default, help and unit.

From the field come the option of the command line, the parameter of a Python method, a row of the table in docs, and
the JSON of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from inspect import get_annotations
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

_UNIT, _OPTION = "unit", "option"


class Unit(Enum):
    """What a value is. The value of a member stands for it in help."""

    NUMBER = "N"
    TIME = "TIME"
    SETTINGS = "KEY=VALUE"
    SETTINGS_FILE = "FILE"
    RELEASE = "VERSION"
    SEGMENT = "BASE"
    KINDS = "KIND,..."
    TOPIC = "NAME"
    TOPIC_ID = "ID"
    LOG_DIR = "LOGDIR"
    FOLDER = "DIR"


TEXTS = (Unit.TOPIC, Unit.TOPIC_ID, Unit.LOG_DIR, Unit.FOLDER)
REPEATED = (Unit.NUMBER, Unit.TIME, Unit.SEGMENT, *TEXTS)  # a tuple of these is an option that may be repeated


def parameter(about: str, unit: Unit = Unit.NUMBER, *, option: str = "") -> Meta:
    """Declare a field to be a parameter that users give. option: its name on the command line, if that is another
    one."""
    return Meta(description=about, extra={_UNIT: unit, _OPTION: option})


class Parameter(Struct, frozen=True):
    """A parameter. key: its name in JSON. low, high: the range of a number. choices: the only words.

    is_many: it may be given several times.
    """

    name: str
    key: str
    option: str
    about: str
    unit: Unit
    default: Any
    is_required: bool
    is_flag: bool
    is_many: bool
    low: int | None
    high: int | None
    choices: tuple[str, ...]


def parameters_of(kind: type[Struct]) -> Iterator[Parameter]:
    """Yield the parameters of a struct: its own before those of its bases, those of a struct inside it in its place."""
    hints, known = get_type_hints(kind, include_extras=True), {field.name: field for field in fields(kind)}
    for name in dict.fromkeys(name for base in kind.__mro__ for name in get_annotations(base) if name in known):
        if isinstance(hints[name], type) and issubclass(hints[name], Struct):
            yield from parameters_of(hints[name])
        else:
            yield from _declared(known[name], list(_parts(hints[name])))


def _declared(field: FieldInfo, parts: Sequence[Any]) -> Iterator[Parameter]:
    """Yield the parameter that a field is declared to be, if it is. parts: of its type."""
    metas = [part for part in parts if isinstance(part, Meta)]
    for meta in metas:
        if meta.extra is not None and _UNIT in meta.extra:
            unit = meta.extra[_UNIT]
            yield Parameter(
                field.name,
                field.encode_name,
                "--" + (meta.extra[_OPTION] or field.name.replace("_", "-")),
                meta.description or "",
                unit,
                default=None if field.required or field.default is NODEFAULT else field.default,
                is_required=field.required,
                is_flag=bool in parts,
                is_many=unit in REPEATED and any(get_origin(part) is tuple for part in parts),
                low=next((int(other.ge) for other in metas if other.ge is not None), None),
                high=next((int(other.le) for other in metas if other.le is not None), None),
                choices=tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part)),
            )


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all that is inside it: members of a union, what annotates them, and so on."""
    yield hint
    for inner in get_args(hint):
        yield from _parts(inner)
