"""Parameters of questions: each is declared once, as a field of a frozen struct, with its type, default, help and unit.

From the field come the option of the command line, the parameter of a Python method, a row of the table in docs, and
the JSON of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from inspect import get_annotations
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import FieldInfo, fields

_UNIT, _OPTION, _METAVAR, _PARSE, _BARE = "unit", "option", "metavar", "parse", "bare"


# Defaults of fields that the constructor takes in other forms (`Given`), as a type checker does not know them.
NOT_GIVEN: Any = None
NO_ITEMS: Any = ()

_Value = TypeVar("_Value", covariant=True)
_Accepted = TypeVar("_Accepted", contravariant=True)


class Accepted(NamedTuple):
    """What the Python API takes for a field, if that is more than the field's type."""

    kind: Any


if TYPE_CHECKING:

    class Given(Generic[_Value, _Accepted]):
        """The type of a field that the Python API takes in more forms than the field has: a time as a datetime, a path
        as a Path. The first is what a reader of the field gets, and what msgspec checks. The second is what a type
        checker lets the constructor take: methods have the signature of their question's constructor, and
        `klogtool.objects` makes the one of the other."""

        def __get__(self, instance: object, owner: object) -> _Value: ...
        def __set__(self, instance: object, value: _Accepted) -> None: ...

else:

    class _AtRuntime:
        def __getitem__(self, both: tuple[Any, Any]) -> Any:
            return Annotated[both[0], Accepted(both[1])]

    Given = _AtRuntime()


class Unit(Enum):
    """What a value is, and the word that stands for it in help."""

    NUMBER = "a number", "N"
    TIME = "a time", "TIME"
    SETTINGS = "settings", "KEY=VALUE"
    SETTINGS_FILE = "a file of settings", "FILE"
    RELEASE = "a release", "VERSION"
    SEGMENT = "a segment", "BASE"
    KINDS = "kinds", "KIND,..."
    TEXT = "a text", "TEXT"
    TOPIC = "a topic", "NAME"
    TOPIC_ID = "a topic id", "ID"
    CLUSTER_ID = "a cluster id", "ID"
    LOG_DIR = "a log dir", "LOGDIR"
    FOLDER = "a folder", "DIR"
    FILE = "a file", "FILE"

    @property
    def word(self) -> str:
        """What stands for a value in help."""
        return self.value[1]


TEXTS = (Unit.TEXT, Unit.TOPIC, Unit.TOPIC_ID, Unit.CLUSTER_ID, Unit.LOG_DIR, Unit.FOLDER, Unit.FILE)
REPEATED = (Unit.NUMBER, Unit.TIME, Unit.SEGMENT, *TEXTS)  # a tuple of these is an option that may be repeated


def parameter(
    about: str,
    unit: Unit = Unit.NUMBER,
    *,
    option: str = "",
    metavar: str = "",
    parse: object = None,
    bare: str | None = None,
) -> Meta:
    """Declare a field to be a parameter that users give. option, metavar: its name on the command line, and what stands
    for its value, if they are others. parse: how the command line makes the value of text, if its unit does not say
    that: a type of click, or a function of the text; for a mapping, a function of all texts. bare: the value of an
    option that is given without one."""
    return Meta(description=about, extra={_UNIT: unit, _OPTION: option, _METAVAR: metavar, _PARSE: parse, _BARE: bare})


class Parameter(Struct, frozen=True):
    """A parameter. key: its name in JSON. low, high: the range of a number. choices: the only words, which are values
    of `enum` if it is one. is_many: it may be given several times; is_mapping: for a mapping. parse, bare: see
    `parameter`.
    """

    name: str
    key: str
    option: str
    about: str
    unit: Unit
    metavar: str
    parse: Any
    bare: str | None
    default: Any
    is_required: bool
    is_flag: bool
    is_many: bool
    is_mapping: bool
    low: int | None
    high: int | None
    choices: tuple[str, ...]
    enum: type[Enum] | None


def structs_in(kind: type[Struct]) -> dict[str, type[Struct]]:
    """Return the fields of a struct that are structs themselves, with their types."""
    hints = get_type_hints(kind)
    return {name: hint for name, hint in hints.items() if isinstance(hint, type) and issubclass(hint, Struct)}


def parameters_of(kind: type[Struct]) -> Iterator[Parameter]:
    """Yield the parameters of a struct: its own before those of its bases, those of a struct inside it in its place."""
    hints, known = get_type_hints(kind, include_extras=True), {field.name: field for field in fields(kind)}
    inside = structs_in(kind)
    for name in dict.fromkeys(name for base in kind.__mro__ for name in get_annotations(base) if name in known):
        if name in inside:
            yield from parameters_of(inside[name])
        else:
            yield from _declared(known[name], list(_parts(hints[name])))


def _declared(field: FieldInfo, parts: Sequence[Any]) -> Iterator[Parameter]:
    """Yield the parameter that a field is declared to be, if it is. parts: of its type."""
    metas = [part for part in parts if isinstance(part, Meta)]
    for meta in metas:
        if meta.extra is not None and _UNIT in meta.extra:
            unit, parse = meta.extra[_UNIT], meta.extra[_PARSE]
            enum = next((part for part in parts if isinstance(part, type) and issubclass(part, Enum)), None)
            words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
            yield Parameter(
                field.name,
                field.encode_name,
                "--" + (meta.extra[_OPTION] or field.name.replace("_", "-")),
                meta.description or "",
                unit,
                meta.extra[_METAVAR],
                parse,
                meta.extra[_BARE],
                default=None if field.required or field.default is NODEFAULT else field.default,
                is_required=field.required,
                is_flag=bool in parts,
                is_many=_is_mapping(parts) or (_is_tuple(parts) and unit in REPEATED),
                is_mapping=_is_mapping(parts),
                low=next((int(other.ge) for other in metas if other.ge is not None), None),
                high=next((int(other.le) for other in metas if other.le is not None), None),
                choices=tuple(words if enum is None else (member.value for member in enum)),
                enum=enum,
            )


def accepted_types(kind: type[Struct]) -> dict[str, Any]:
    """Return what the Python API takes for each field of a struct, as a signature shows it."""
    annotated = get_type_hints(kind, include_extras=True)
    accepted = {
        name: part.kind for name, hint in annotated.items() for part in get_args(hint) if isinstance(part, Accepted)
    }
    return get_type_hints(kind) | accepted


def _is_tuple(parts: Sequence[Any]) -> bool:
    return any(get_origin(part) is tuple and Ellipsis in get_args(part) for part in parts)


def _is_mapping(parts: Sequence[Any]) -> bool:
    return isinstance(kind := get_origin(parts[1]), type) and issubclass(kind, Mapping)  # parts[0] is what is annotated


def _parts(hint: Any) -> Iterator[Any]:
    """Yield a type and all that is inside it: members of a union, what annotates them, and so on."""
    yield hint
    for inner in get_args(hint):
        yield from _parts(inner)
