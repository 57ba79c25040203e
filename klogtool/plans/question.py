"""What a command is asked, as a value: what all questions have in common, and how one becomes JSON and is read back.

Each command has a struct of its own in its module. It is made by the command line or by Python, stands in the plan's
file as `arguments`, and is read from there by type: somebody else may have written that file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from klogtool.broker.circumstances import Circumstances
from klogtool.log.cores import usable_cores
from klogtool.plans.fields import WrongField

Count: TypeAlias = Annotated[int, Meta(ge=1, le=(1 << 31) - 1)]
Threads: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 10)]
# A text that can be a path: no NUL, and no surrogate but those that stand for bytes that are no UTF-8.
_NO_PATH = "\0\ud800-\udc7f\udd00-\udfff"
PathText: TypeAlias = Annotated[str, Meta(pattern=f"^[^{_NO_PATH}]*$")]

_CIRCUMSTANCES = "circumstances"


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every command is asked. circumstances: what is known beside the files; jobs: threads, None: one a core.

    purge: leave no `.deleted` files. no_undo: keep nothing for undo.
    """

    circumstances: Circumstances
    jobs: Threads | None = None
    purge: bool = False
    no_undo: bool = False

    @property
    def threads(self) -> int:
        """How many threads to use."""
        return self.jobs or usable_cores()

    def as_arguments(self) -> dict[str, Any]:
        """The question in JSON's types. An option that was not used is left out."""
        own = {name: getattr(self, name) for name in self.__struct_fields__ if name != _CIRCUMSTANCES}
        used = {name: value for name, value in own.items() if value is not None and value is not False}
        listed = {name: list(value) if isinstance(value, tuple) else value for name, value in used.items()}
        return {**self.circumstances.as_arguments(), **listed}


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def read_question(kind: type[AnyQuestion], arguments: Mapping[str, Any], at: str = "arguments") -> AnyQuestion:
    """The question that `as_arguments` told of. Raises WrongField, which names what is of another type, or unknown.

    at: what errors call the whole.
    """
    known = {field.encode_name for struct in (kind, Circumstances) for field in fields(struct)} - {_CIRCUMSTANCES}
    for name in arguments:
        if name not in known:
            raise WrongField(f"{at}.{name} is unknown")
    circumstances = Circumstances(**_values(Circumstances, arguments, at))
    return kind(**{**_values(kind, arguments, at), _CIRCUMSTANCES: circumstances})


def _values(kind: type[Struct], row: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Of a struct's fields those that are in the row, each of its type."""
    found = {}
    for field in fields(kind):
        if field.encode_name in row:
            found[field.name] = _checked(row[field.encode_name], field.type, f"{at}.{field.encode_name}")
        elif field.required and field.name != _CIRCUMSTANCES:
            raise WrongField(f"{at}.{field.encode_name} is missing")
    return found


def _checked(value: Any, kind: Any, name: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        if "matching regex" in reason:
            reason = "has a NUL in it, or is not a possible path"
        raise WrongField(f"{name}{place.rstrip('`')}: {reason[:1].lower()}{reason[1:]}") from None
    except UnicodeEncodeError:  # a text that no file can hold, where something else belongs
        raise WrongField(f"{name}: is not a possible text") from None
