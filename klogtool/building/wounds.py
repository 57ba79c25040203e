"""Named wounds: what disks, kills and people do to log dirs. For tests of tools that meet such log dirs.

A wound changes a draft, which is a folder as it is to become, and writes nothing. `WOUNDS` has each by its name.
`Wound` is one as a value: a name, a file, and arguments, as a spec of `klogtool build` has it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct

from klogtool.broker.draft import Draft
from klogtool.building import wounds_of_batches, wounds_of_bytes, wounds_of_log_dirs, wounds_of_side_files
from klogtool.building.wound_places import path_in
from klogtool.errors import KlogError
from klogtool.format.text import did_you_mean

_THEMES = (wounds_of_bytes, wounds_of_batches, wounds_of_side_files, wounds_of_log_dirs)
WOUNDS: Mapping[str, Callable[..., None]] = {  # the public functions of these modules
    name: wound
    for theme in _THEMES
    for name, wound in vars(theme).items()
    if inspect.isfunction(wound) and wound.__module__ == theme.__name__ and not name.startswith("_")
}

NAME, FILE = "wound", "file"


class Wound(Struct, frozen=True):
    """A wound as a value. name: in `WOUNDS`. file: a path below the draft, of a file or partition dir; "": the draft's
    own folder. arguments: those of the function, by name."""

    name: str
    file: str = ""
    arguments: Mapping[str, int | str | bool] = msgspec.field(default_factory=dict)

    def inflict(self, draft: Draft) -> None:
        """Change the draft. Raises KlogError if the wound does not fit: no such file, batch or byte."""
        try:
            WOUNDS[self.name](draft, self.file, **self.arguments)
        except KlogError as error:
            raise error.at_path(path_in(draft, self.file)) from None

    def as_row(self) -> dict[str, int | str | bool]:
        """Return the mapping that `read_wound` reads."""
        return {NAME: self.name, **({FILE: self.file} if self.file else {}), **self.arguments}


def read_wound(row: Mapping[str, object]) -> Wound:
    """Read a wound that somebody wrote: `wound: flip_bit`, `file: orders-0`, and its arguments.

    Raises KlogError for an unknown wound or argument, or a wrong type.
    """
    name = row.get(NAME)
    if not isinstance(name, str) or name not in WOUNDS:
        near = did_you_mean(str(name), sorted(WOUNDS))
        raise KlogError(f"there is no wound '{str(name)[:40]}'{near or '; there are ' + ', '.join(sorted(WOUNDS))}")
    rest = {key: value for key, value in row.items() if key != NAME}
    try:
        converted = msgspec.convert(rest, _arguments_of(name))
    except msgspec.ValidationError as error:
        raise KlogError(f"{name}: {_in_words(error)}") from None
    arguments = {key: getattr(converted, key) for key in rest if key != FILE}
    return Wound(name, getattr(converted, FILE), arguments)


def _in_words(error: msgspec.ValidationError) -> str:
    """Say what is wrong and where, without words of Python."""
    reason, _, place = str(error).replace("`", "").partition(" - at $.")
    return f"{place}: {reason[:1].lower()}{reason[1:]}" if place else reason.replace("Object", "it")


@cache
def _arguments_of(name: str) -> type[Struct]:
    """Return a struct with the arguments of a wound's function."""
    hints = get_type_hints(WOUNDS[name])
    parameters = list(inspect.signature(WOUNDS[name]).parameters.values())[1:]
    fields = [
        (each.name, hints[each.name], NODEFAULT if each.default is inspect.Parameter.empty else each.default)
        for each in parameters
    ]
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
