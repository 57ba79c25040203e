"""What the settings of a process may be, one by one: the table server_settings.json, which is Kafka's own (ConfigDef).

tools/extract_settings.py makes it from the jars of releases. A value that is not one of these ends the process before
it reads a log. What values may be together is in server_rules.py.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.json import decode

from klogtool.broker.causes import ValueRefusal
from klogtool.broker.config import provided_names
from klogtool.broker.releases import RELEASES, Release, Rules
from klogtool.causes import Reason, Text
from klogtool.errors import Corrupt, KlogError
from klogtool.format.internal.java_double import java_double
from klogtool.format.java_numbers import parse_java_int, parse_java_long, to_signed

NODE_ID, BROKER_ID = "node.id", "broker.id"  # the second is its older name
ROLES = "process.roles"
CONTROLLER_LISTENERS = "controller.listener.names"
_SHORT_BITS = 16
_COMMAS = re.compile(r"\s*,\s*")
_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))[fFdD]?", re.ASCII)
_GZIP_LEVEL = "compression.gzip.level"
_GZIP_LEVELS = (-1, *range(1, 10))  # CompressionType.GZIP: a lambda of ConfigDef, which no table has

Number: TypeAlias = int | float


class Definition(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the table (ConfigDef.ConfigKey): a setting of the releases from `since` to `until`. words: what the
    text, or each word of a list, may be; empty for any."""

    name: str
    type: Literal["boolean", "int", "short", "long", "double", "list", "string", "class"]
    required: bool = False
    default: Number | None = None
    least: Number | None = None
    most: Number | None = None
    words: tuple[str, ...] = ()
    ignores_case: bool = False
    not_empty: bool = False
    since: Release = RELEASES[0]
    until: Release = RELEASES[-1]


class SettingRefused(KlogError):
    """A process ends at a setting. setting: its name."""

    def __init__(self, setting: str, reason: Text, kafka_class: str = "ConfigException") -> None:
        super().__init__(reason, kafka_class=kafka_class)
        self.setting = setting


@cache
def _rows() -> tuple[Definition, ...]:
    return decode(pkgutil.get_data(__package__, "server_settings.json") or b"", type=tuple[Definition, ...])


@cache
def definitions(release: Release) -> Mapping[str, Definition]:
    """Return the settings of a release that are not any text, in Kafka's order."""
    at = RELEASES.index(release)
    of_release = (row for row in _rows() if RELEASES.index(row.since) <= at <= RELEASES.index(row.until))
    return {row.name: row for row in of_release}


def listed(settings: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the values of a setting that is a list (ConfigDef.Type.LIST); an empty value stays one."""
    text = settings.get(name, "").strip()
    return tuple(_COMMAS.split(text)) if text else ()


def is_defined(name: str) -> bool:
    """Return whether some release has a setting of this name that is not any text."""
    return any(row.name == name for row in _rows())


def with_synonyms(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with both names of a node's id (AbstractKafkaConfig.populateSynonyms)."""
    known = dict(settings)
    for name, other in ((NODE_ID, BROKER_ID), (BROKER_ID, NODE_ID)):
        if other in settings:
            known.setdefault(name, settings[other])
    return known


def refused_values(settings: Mapping[str, str], rules: Rules) -> Iterator[SettingRefused]:
    """Yield what the release does not take, of a file with process.roles also what it lacks (ConfigDef.parse). The
    process ends at the first. What a config provider has is not known."""
    known = with_synonyms(settings)
    provided = provided_names(known)
    for name, row in definitions(rules.release).items():
        if name in provided or (name == NODE_ID and name not in settings and name in known):
            continue  # its value is that of broker.id
        try:
            if name in known:
                check_value(row, known[name], rules)
            elif row.required and ROLES in settings:
                raise SettingRefused(name, ValueRefusal.MISSING(name=name))
        except SettingRefused as refused:
            yield refused


def check_value(row: Definition, text: str, rules: Rules) -> None:
    """Raise SettingRefused for a value that ConfigDef.parseType or the validator of a release does not take."""
    if row.type == "list":
        _check_list(row, tuple(dict.fromkeys(listed({row.name: text}, row.name))), rules)
    elif row.type == "boolean":
        if text.strip().lower() not in ("true", "false"):
            raise _invalid(row.name, text, ValueRefusal.NO_BOOLEAN())
    elif row.type == "string":
        _check_text(row, text.strip())
    elif row.type != "class":
        _check_range(row, parse_number(row, text))


def parse_number(row: Definition, text: str) -> Number:
    """Parse a number as Java does. Raises SettingRefused."""
    trimmed = text.strip()
    try:
        if row.type == "double":
            return _parse_double(trimmed)
        number = (parse_java_long if row.type == "long" else parse_java_int)(trimmed)
        if row.type != "short" or number == to_signed(number, _SHORT_BITS):
            return number
    except Corrupt:
        pass
    raise _invalid(row.name, text, ValueRefusal.NO_NUMBER(type=row.type.upper())) from None


def _parse_double(text: str) -> float:
    match = _DOUBLE.fullmatch(text)
    if match is None:
        raise Corrupt(text)
    return float(match[1])


def _check_range(row: Definition, number: Number) -> None:
    """ConfigDef.Range."""
    shown = java_double(number) if isinstance(number, float) else str(number)
    if row.least is not None and number < row.least:
        raise _invalid(row.name, shown, ValueRefusal.TOO_LOW(least=str(row.least)))
    if row.most is not None and number > row.most:
        raise _invalid(row.name, shown, ValueRefusal.TOO_HIGH(most=str(row.most)))
    if row.name == _GZIP_LEVEL and number not in _GZIP_LEVELS:
        raise _invalid(row.name, shown, ValueRefusal.NO_GZIP_LEVEL())


def _check_text(row: Definition, text: str) -> None:
    """ConfigDef.ValidString, CaseInsensitiveValidString and NonEmptyString."""
    if row.not_empty and not text:
        raise _invalid(row.name, text, ValueRefusal.EMPTY())
    if row.words and (text.upper() if row.ignores_case else text) not in row.words:
        cause = ValueRefusal.OTHER_WORD_OF_ANY_CASE if row.ignores_case else ValueRefusal.OTHER_WORD
        raise _invalid(row.name, text, cause(words=row.words))


def _check_list(row: Definition, words: tuple[str, ...], rules: Rules) -> None:
    """ConfigDef.ValidList, which looked at the words only until 4.1."""
    if row.not_empty and not words:
        valid = f"[{', '.join(row.words)}]" if row.words else ValueRefusal.ANY_WORD()
        raise SettingRefused(row.name, ValueRefusal.EMPTY_LIST(name=row.name, valid=valid))
    for word in words:
        if rules.checks_lists and not word:
            raise SettingRefused(row.name, ValueRefusal.EMPTY_WORD(name=row.name))
        _check_text(row, word)


def _invalid(name: str, value: str, why: Reason) -> SettingRefused:
    return SettingRefused(name, ValueRefusal.INVALID(name=name, value=value, why=why))


class NotKnown(Exception):  # no error: a check is left out
    """A setting has a value of a config provider."""


class ServerConfig:
    """The settings of a process with Kafka's defaults, one release's. Its methods raise NotKnown for a value of a
    config provider."""

    def __init__(self, settings: Mapping[str, str], rules: Rules) -> None:
        """settings: of a file, with values that the release takes."""
        self.rules = rules
        self._settings = with_synonyms(settings)
        self._provided = provided_names(self._settings)
        self._definitions = definitions(rules.release)

    def has(self, name: str) -> bool:
        """Return whether the file has the setting."""
        return name in self._settings

    def exists(self, name: str) -> bool:
        """Return whether the release has this setting, which is a number."""
        return name in self._definitions

    def number(self, name: str) -> Number | None:
        """Return a number; None if the file has none, and Kafka neither."""
        self._check_known(name)
        row = self._definitions[name]
        return parse_number(row, self._settings[name]) if name in self._settings else row.default

    def words(self, name: str, default: str = "") -> tuple[str, ...]:
        """Return a list; since 4.2 each word counts once."""
        self._check_known(name)
        words = listed({name: self.text(name, default)}, name)
        return tuple(dict.fromkeys(words)) if self.rules.checks_lists else words

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        self._check_known(name)
        return self._settings.get(name, default).strip()

    @property
    def roles(self) -> frozenset[str]:
        """Return the roles of the process."""
        return frozenset(self.words(ROLES))

    @property
    def controller_names(self) -> tuple[str, ...]:
        """Return the names of listeners of controllers."""
        return self.words(CONTROLLER_LISTENERS)

    def _check_known(self, name: str) -> None:
        if name in self._provided:
            raise NotKnown(name)
