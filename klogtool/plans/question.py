"""What a command is asked, as a value: what all questions share, and how a question becomes JSON and is read back.

Each command has its own struct in its module. The command line or Python makes it. It is in the plan's file as
`arguments`, and is read back by type, because somebody else may have written that file.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, TypeAlias, TypeVar

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import FieldInfo, fields

from klogtool.broker.circumstances import Circumstances, server_log_dirs
from klogtool.log.cores import usable_cores
from klogtool.parameters import parameter
from klogtool.plans.causes import FieldCause
from klogtool.plans.fields import JsonObject, WrongField, checked_path, read_as

Threads: TypeAlias = Annotated[int, Meta(ge=1, le=1 << 10)]
# A string that can be a path: no NUL, and no surrogates except those that stand for bytes that are not UTF-8.
_NO_PATH = "\0\ud800-\udc7f\udd00-\udfff"
PathText: TypeAlias = Annotated[str, Meta(pattern=f"^[^{_NO_PATH}]*$")]


class Question(Circumstances, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every command is asked."""

    jobs: Annotated[Threads | None, parameter("Number of threads.  [default: all cores]")] = None

    @property
    def circumstances(self) -> Circumstances:
        """Return what is known beside the files."""
        return Circumstances(**{name: getattr(self, name) for name in Circumstances.__struct_fields__})

    @property
    def purge(self) -> bool:
        """Return whether no .deleted files are left."""
        return False

    @property
    def no_undo(self) -> bool:
        """Return whether nothing is kept for undo."""
        return False

    @property
    def threads(self) -> int:
        """Return how many threads to use."""
        return self.jobs or usable_cores()

    def as_arguments(self) -> JsonObject:
        """Return the question as JSON types, without options that were not used."""
        known = self.circumstances.as_arguments()
        names = sorted(self.__struct_fields__, key=lambda name: name in DeletingQuestion.__struct_fields__)
        on = {field.name for field in _fields_of(type(self)) if field.default is True}
        own = {name: getattr(self, name) for name in names if name not in known}
        used = {name: value for name, value in own.items() if value is not None and (value is not False or name in on)}
        listed = {name: list(to_builtins(value)) if isinstance(value, tuple) else value for name, value in used.items()}
        return {**known, **listed}


class DeletingQuestion(Question, frozen=True, kw_only=True):
    """What commands are asked that delete segments."""

    purge: Annotated[bool, parameter("Leave no .deleted files. Deleted files are still kept for undo.")] = False
    no_undo: Annotated[bool, parameter("With --purge: keep nothing for undo, and free the space at once.")] = False


AnyQuestion = TypeVar("AnyQuestion", bound=Question)


def read_question(kind: type[AnyQuestion], arguments: JsonObject, at: str = "arguments") -> AnyQuestion:
    """Read the question that `as_arguments` wrote. Raises WrongField, which names a field that is unknown or has the
    wrong type.

    at: the name of the whole in errors.
    """
    known = {field.name: field for field in _fields_of(kind)}
    for name in arguments:
        if name not in known:
            raise WrongField(FieldCause.UNKNOWN(field=f"{at}.{name}"))
    for name, field in known.items():
        if name not in arguments and (field.required or name == "now_ms"):
            raise WrongField(FieldCause.MISSING(field=f"{at}.{name}"))
    question = kind(**{name: read_as(value, known[name].type, f"{at}.{name}") for name, value in arguments.items()})
    for log_dir in server_log_dirs(question.server_settings):
        checked_path(log_dir, f"{at}.config_sections: log.dirs")
    return question


@cache
def _fields_of(kind: type[Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a struct. msgspec compiles each annotation anew, and a saved plan of 10,000 partitions has
    as many questions."""
    return fields(kind)
