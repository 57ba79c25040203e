"""What a broker logs as it ends, or gives a log dir up: the table exceptions.json, in Kafka's words.

Each message is that of a real broker, or of the sources; `{name}` stands for what varies. klogtool explain recognises
them (situations/).
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache

from msgspec import Struct
from msgspec.json import decode

from klogtool.verify.stops import Stop, offline, refuses


class _Row(Struct, frozen=True, forbid_unknown_fields=True):
    """kafka_class: of the exception; empty for a line that is none."""

    message: str
    kafka_class: str = ""


@cache
def _rows() -> Mapping[str, _Row]:
    return decode(pkgutil.get_data(__package__, "exceptions.json") or b"", type=dict[str, _Row])


def message_of(name: str, /, **values: object) -> str:
    """Return a message with its values. Raises KeyError if a value or the message is not known."""
    return _rows()[name].message.format_map(values)


def stop_at(name: str, /, *, is_fatal: bool = True, **values: object) -> Stop:
    """Return that the process ends with this exception; or else that the log dir goes offline."""
    return (refuses if is_fatal else offline)(_rows()[name].kafka_class, message_of(name, **values))
