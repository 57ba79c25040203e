"""Other names for topics, and for files and folders that are not Kafka's, so that an image does not tell them.

The map of names is kept apart from the image.

A new name is a hash of the topic's name and a secret, in lowercase letters and digits. It has as many bytes as the old
one, because sizes of records depend on it. Kafka's internal topics keep their names, because brokers and klogtool treat
them in their own ways. Of a file's name what Kafka reads stays: its kind, and offsets in digits. The rest becomes
letters, so that no name becomes a number.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

from klogtool.errors import KlogError
from klogtool.format.names import INTERNAL_TOPICS, FileKind, parse_file_name
from klogtool.log.folder import find_partition_dir_name
from klogtool.plans.causes import PlanRefusal

SECRET_BYTES = 16
MOST_TRIES = 10_000  # topics with names of one letter need several
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_NO_DIGITS = _LETTERS[:26]
_OFFSETS = re.compile(r"-?[0-9]{1,20}(-[0-9]{10})?")  # of a segment's file, of a KRaft snapshot
_NUMBER = re.compile(r"[+-]?[0-9]{1,10}")
_NEW_NAME = re.compile(r"[A-Za-z0-9]+")
_UNIQUE_ID = re.compile(r"[0-9a-f]{32}")
_HARMLESS = frozenset({"lost+found", "remote-log-index-cache"})  # a broker or klogtool treats them in their own ways


class TopicNames:
    """The names of one image. secret: for the hash; None: names stay as they are.

    known, others: names of topics, and of files and folders, of an earlier image.
    """

    def __init__(
        self, secret: bytes | None, known: Mapping[str, str] | None = None, others: Mapping[str, str] | None = None
    ) -> None:
        self._secret, self.names, self.others = secret, dict(known or {}), dict(others or {})
        self._salt = os.urandom(SECRET_BYTES) if secret is None else secret
        self._taken = {*self.names.values(), *self.others.values(), *INTERNAL_TOPICS}

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
        partition_dir = find_partition_dir_name(name)
        if partition_dir is None:
            return name if name in _HARMLESS else self._of_other(name)
        rest = name[len(partition_dir.topic) + 1 :]
        if partition_dir.state.is_current:
            number, unique_id = rest, ""
        else:
            number, _, unique_id = rest.removesuffix(partition_dir.state.value).rpartition(".")
            unique_id = "." + (unique_id if _UNIQUE_ID.fullmatch(unique_id) else self._of_other(unique_id))
        number = number if _NUMBER.fullmatch(number) else str(partition_dir.partition)
        return f"{self.of(partition_dir.topic)}-{number}{unique_id}{partition_dir.state.value}"

    def of_file(self, name: str) -> str:
        """Return the name that a file has in the image."""
        file = parse_file_name(name)
        if file.kind is FileKind.FOREIGN:
            return self._of_other(name)
        if not (file.kind.has_base_offset or file.kind is FileKind.KRAFT_SNAPSHOT):
            return name  # all of it is Kafka's
        end = file.kind.value + file.suffix
        stem = name.removesuffix(end)
        return name if _OFFSETS.fullmatch(stem) else self._of_stem(stem) + end

    def hidden(self, text: str) -> str:
        """Return letters in place of a text, as many as it has bytes; the same ones for the same text. A colon stays,
        because it parts the name of a user from its type."""
        return ":".join(self._letters_for(part.encode("utf-8", "surrogatepass")) for part in text.split(":"))

    def _letters_for(self, data: bytes) -> str:
        return "".join(_NO_DIGITS[byte % 26] for byte in hashlib.shake_256(self._salt + data).digest(len(data)))

    def _of_stem(self, stem: str) -> str:
        """Return another stem; what Kafka reads of it as an offset or an epoch stays."""
        match = re.match(r"-?[0-9]{1,20}(?=\.)|[0-9]{20}-[0-9]{10}(?=.)", stem, re.DOTALL)
        at = match.end() if match else 0
        return stem[:at] + stem[at : at + 1] * bool(at) + self._of_other(stem[at + bool(at) :])

    def _of_other(self, name: str) -> str:
        """Return another name of letters for what is not Kafka's."""
        if self._secret is None or not name:
            return name
        if name not in self.others:
            self.others[name] = self._new_name(self._secret, os.fsencode(name), _NO_DIGITS)
            self._taken.add(self.others[name])
        return self.others[name]

    def as_json(self) -> dict[str, object]:
        """Return what a map file says."""
        return {"secret": (self._secret or b"").hex(), "names": self.names, "others": self.others}

    def _new_name(self, secret: bytes, topic: bytes, letters: str = _LETTERS) -> str:
        for number in range(MOST_TRIES):
            seed = b"%s%d:%s" % (secret, number, topic)
            name = "".join(letters[byte % len(letters)] for byte in hashlib.shake_256(seed).digest(len(topic)))
            if name not in self._taken:
                return name
        raise KlogError(PlanRefusal.TOO_MANY_NAMES(size=len(topic)), cure=PlanRefusal.KEEP_NAMES())


def read_names(row: Any) -> TopicNames:
    """Return the names of a map file. Raises KlogError if it is not one."""
    try:
        secret, known, others = bytes.fromhex(row["secret"]), row["names"], row.get("others", {})
        pairs = [pair for names in (known, others) for pair in names.items()]
        if len({other for _, other in pairs}) < len(pairs):
            raise ValueError
        if not secret or not all(isinstance(name, str) for pair in pairs for name in pair):
            raise ValueError
        if not all(len(os.fsencode(name)) == len(other) and _NEW_NAME.fullmatch(other) for name, other in pairs):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise KlogError(PlanRefusal.NO_MAP()) from None
    return TopicNames(secret, known, others)
