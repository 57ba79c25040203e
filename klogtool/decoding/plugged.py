"""Decoders of other Python packages: entry points of the group klogtool.decoders.

An entry point is a callable (bytes, topic, is_key) that returns what JSON can have. The topic is None if it is not
known. Whatever it raises becomes the reason why a value has no decoded form.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from klogtool.decoding.bounds import to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.errors import Corrupt, KlogError

GROUP = "klogtool.decoders"


def plugged_names() -> list[str]:
    """Return the names of the decoders that are installed."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def plugged_decoder(name: str, *, is_key: bool) -> Callable[[bytes, str | None], Reading] | None:
    """Return a decoder by the name of its entry point; None if there is none. Raises KlogError if it cannot be
    imported."""
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return None
    decode = _loaded(point)

    def decoder(data: bytes, topic: str | None) -> Reading:
        try:
            value = decode(data, topic, is_key)
        except BaseException as error:  # anything but an interrupt
            if not isinstance(error, Exception):
                raise
            raise Corrupt(_line(error)) from error
        return Reading(to_json(value, bytes_form, size=None))

    return decoder


def _loaded(point: EntryPoint) -> Callable[[bytes, str | None, bool], object]:
    try:
        decode = point.load()
    except BaseException as error:  # anything but an interrupt
        if not isinstance(error, Exception):
            raise
        raise KlogError(f"the decoder {point.name} ({point.value}) cannot be imported: {_line(error)}") from error
    if not callable(decode):
        raise KlogError(f"the decoder {point.name} ({point.value}) is no function")
    checked: Callable[[bytes, str | None, bool], object] = decode
    return checked


def _line(error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__
