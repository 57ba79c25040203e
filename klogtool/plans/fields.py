"""Reads JSON that somebody else may have written: by types, and an error names the field."""

from __future__ import annotations

import os
from typing import Any, TypeAlias, TypeVar

import msgspec

from klogtool.plans.causes import FieldCause

JsonObject: TypeAlias = dict[str, Any]

Kind = TypeVar("Kind")


class WrongField(ValueError):
    """A field is missing or has the wrong type. The message says which field, and what it should be."""


def read_as(value: Any, kind: type[Kind], name: str = "") -> Kind:
    """Return a JSON value as a type. name: of the whole, for errors. Raises WrongField."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        of_msgspec, _, place = str(error).partition(" - at `$")
        if "matching regex" in of_msgspec:
            of_msgspec = "has a NUL in it, or is not a possible path"
        at = f"{name}{place.rstrip('`')}".lstrip(".") or "the line"
        raise WrongField(f"{at}: {of_msgspec[:1].lower()}{of_msgspec[1:]}") from None
    except UnicodeEncodeError:  # a string that no path can be, in a field of another type
        raise WrongField(FieldCause.NO_TEXT(field=name)) from None


def checked_path(path: str, name: str) -> str:
    """Return a string that can be a path or a name. Raises WrongField for any other."""
    if "\0" in path:
        raise WrongField(FieldCause.NUL(field=name))
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise WrongField(FieldCause.NO_PATH(field=name)) from None
    return path


def inside(path: str, name: str) -> str:
    """Return a path below a folder: relative, without `..`. Raises WrongField for any other."""
    if os.path.isabs(path) or os.pardir in path.split(os.sep):
        raise WrongField(FieldCause.OUTSIDE(field=name))
    return checked_path(path, name)


def absolute(path: str, name: str) -> str:
    """Return an absolute path. Raises WrongField for any other."""
    if not os.path.isabs(path):
        raise WrongField(FieldCause.NOT_ABSOLUTE(field=name))
    return checked_path(path, name)
