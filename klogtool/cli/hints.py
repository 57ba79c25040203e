"""The second line of an error: what to do about it, where there is something.

Which hint it is goes by the kind of the error, never by its words; an error that no option and no other spelling
helps against has none.
"""

from __future__ import annotations

import errno
import os

from klogtool.errors import Corrupt, KlogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BY_KAFKA_CLASS = {
    "OffsetOutOfRangeException": "klogtool lookup PARTITION --timestamp earliest --timestamp latest tells from where "
    "to where it goes.",
    "ClassNotFoundException": "There are StringDecoder, DefaultDecoder, IntegerDecoder, LongDecoder, "
    "with org.apache.kafka.tools.api. before the name.",
    "MultipleArgumentsForOptionException": "Give it once; --files takes several files separated by commas.",
}
BY_ERRNO = {
    errno.EACCES: "Read it as the user that the broker runs as, or as root.",
    errno.EPERM: "Read it as the user that the broker runs as, or as root.",
}


def hint_of(error: KlogError, given: Mapping[str, Any]) -> str | None:
    """What to do about an error, or None. given: the parameters of the command, by name."""
    number = getattr(error, "errno", None)
    if number == errno.ENOENT:
        return _of_missing(error.path or "")
    if number is not None:
        return BY_ERRNO.get(number)
    if isinstance(error, Corrupt) and error.path is not None:
        return _of_damage(error, error.path, given)
    return BY_KAFKA_CLASS.get(error.kafka_class or "")


def _of_missing(path: str) -> str | None:
    if "," in path and all(map(os.path.exists, path.split(","))):
        return "Several files are several words here: FILE FILE. Only --files takes commas."
    if os.sep not in path and "." not in path:
        return "Name a file or folder: a topic's lie in partition dirs, as /var/kafka-logs/orders-0."
    return None


def _of_damage(error: Corrupt, path: str, given: Mapping[str, Any]) -> str | None:
    from klogtool.format.names import FileKind, parse_file_name

    form, kind = given.get("form"), parse_file_name(os.path.basename(path)).kind
    if form == "text" and error.kafka_class == "NoSuchFileException":
        return "--format json prints it alone."
    if kind is not FileKind.LOG or form not in ("text", "json"):
        return None
    if form == "text" and error.kafka_class == "NumberFormatException" and error.position is None:
        return "--format json reads it under any name."
    if error.position is not None and not given.get("resync"):
        return "--resync goes on behind it."
    return None
