"""Other names for topics, so that an image does not tell them. The map of names is kept apart from the image.

A new name is a hash of the topic's name and a secret, in lowercase letters and digits. It has as many bytes as the old
one, because sizes of records depend on it. Kafka's internal topics keep their names, because brokers and klogtool treat
them in their own ways.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

from klogtool.errors import KlogError
from klogtool.log.folder import find_partition_dir_name

INTERNAL_TOPICS = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)
SECRET_BYTES = 16
MOST_TRIES = 10_000  # topics with names of one letter need several
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_HEAD_LINES = 2  # of a checkpoint: version and number of entries
_FIRST_WORD = re.compile(rb"\s*(\S+)")


class TopicNames:
    """The names of one image. secret: for the hash; None: names stay as they are. known: names of an earlier image."""

    def __init__(self, secret: bytes | None, known: Mapping[str, str] | None = None) -> None:
        self._secret, self.names = secret, dict(known or {})
        self._taken = {*self.names.values(), *INTERNAL_TOPICS}

    @property
    def are_mapped(self) -> bool:
        """Whether topics get other names."""
        return self._secret is not None

    def of(self, topic: str) -> str:
        """Return the name that a topic has in the image. Raises KlogError if there are too many short names."""
        if self._secret is None or topic in INTERNAL_TOPICS or not topic:
            return topic
        if topic not in self.names:
            self.names[topic] = self._new_name(self._secret, os.fsencode(topic))
            self._taken.add(self.names[topic])
        return self.names[topic]

    def of_folder(self, name: str) -> str:
        """Return the name that a folder has in the image."""
        found = find_partition_dir_name(name)
        return name if found is None else self.of(found.topic) + name[len(found.topic) :]

    def as_json(self) -> dict[str, Any]:
        """Return what a map file says."""
        return {"secret": (self._secret or b"").hex(), "names": self.names}

    def _new_name(self, secret: bytes, topic: bytes) -> str:
        for number in range(MOST_TRIES):
            seed = b"%s%d:%s" % (secret, number, topic)
            name = "".join(_LETTERS[byte % len(_LETTERS)] for byte in hashlib.shake_256(seed).digest(len(topic)))
            if name not in self._taken:
                return name
        raise KlogError(f"there are too many topics with names of {len(topic)} bytes", cure="Use --keep-names.")


def read_names(row: Any) -> TopicNames:
    """Return the names of a map file. Raises KlogError if it is not one."""
    try:
        secret, known = bytes.fromhex(row["secret"]), row["names"]
        if not secret or not all(isinstance(name, str) for pair in known.items() for name in pair):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise KlogError("this is not a map of names that klogtool wrote") from None
    return TopicNames(secret, known)


def renamed_checkpoint(data: bytes, names: TopicNames) -> bytes:
    """Return a checkpoint of partitions with other names, in the same number of bytes. Damaged lines are treated as
    lines of partitions."""
    if not names.are_mapped:
        return data
    return b"\n".join(_renamed_line(number, line, names) for number, line in enumerate(data.split(b"\n")))


def _renamed_line(number: int, line: bytes, names: TopicNames) -> bytes:
    found = _FIRST_WORD.match(line)
    if found is None or (number < _HEAD_LINES and found[1].isdigit()):
        return line
    name = os.fsencode(names.of(os.fsdecode(found[1])))
    return line[: found.start(1)] + name + line[found.end(1) :]
