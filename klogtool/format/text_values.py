"""Values of text files: how each type is read and written. `layouts` names the values of a file by these types.

A file's own rules (lines, words, properties, JSON) are in its reader; this file has what Java makes of one value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from construct import Construct, Default
from construct import Struct as Declaration
from msgspec import Struct

from klogtool.errors import Corrupt
from klogtool.format.java_numbers import MAX_INT, MAX_LONG, parse_java_int, parse_java_long
from klogtool.format.uuids import build_uuid, parse_uuid

_runtime = partial(Corrupt, kafka_class="RuntimeException")


class TextValue(Construct):  # type: ignore[misc]
    """A type of value. read: converts its text, or its JSON value; raises Corrupt.

    write: the reverse. kind: the name of the type in docs/format.md.
    """

    def __init__(self, kind: str, read: Callable[[Any], Any], write: Callable[[Any], Any]) -> None:
        super().__init__()
        self.kind, self.read, self.write = kind, read, write


class Member(Struct, frozen=True):
    """One declared value of a file. default: of an optional one, if the file does not have it."""

    name: str
    kind: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    is_optional: bool
    default: Any


def members_of(declaration: Declaration) -> tuple[Member, ...]:
    """Return the declared values, in order; those in construct's Default are optional."""
    members = []
    for named in declaration.subcons:
        inner = named.subcon
        is_optional = isinstance(inner, Default)
        value: TextValue = inner.subcon if is_optional else inner
        default = inner.value if is_optional else None
        members.append(Member(named.name, value.kind, value.read, value.write, is_optional, default))
    return tuple(members)


# Values of JSON as Kafka's generated QuorumStateDataJsonConverter takes them (MessageUtil).


def _json_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _runtime("QuorumStateData expected a string type")
    return value


def _json_int(value: Any) -> int:
    return _json_integer(value, MAX_INT)


def _json_integer(value: Any, highest: int) -> int:
    """MessageUtil.jsonNodeToInt and jsonNodeToLong: integers only, text and fractions are refused."""
    if isinstance(value, bool) or not isinstance(value, int) or not -highest - 1 <= value <= highest:
        raise Corrupt("QuorumStateData: failed to parse number", kafka_class="NumberFormatException")
    return value


def _json_voters(value: Any) -> tuple[int, ...]:
    voters = []
    for voter in _json_array(value):
        if not isinstance(voter, dict) or "voterId" not in voter:
            raise _runtime("Voter: unable to locate field 'voterId', which is mandatory")
        voters.append(_json_int(voter["voterId"]))
    return tuple(voters)


def _json_no_voters(value: Any) -> tuple[int, ...]:
    if _json_array(value):
        raise Corrupt("Can't read version 1 of Voter", kafka_class="UnsupportedVersionException")
    return ()


def _json_array(value: Any) -> list[Any]:
    if value is None:
        # The converter takes null, ElectionState.fromQuorumStateData then trips over it.
        raise Corrupt("QuorumStateData: currentVoters is null", kafka_class="NullPointerException")
    if not isinstance(value, list):
        raise _runtime("QuorumStateData expected a JSON array")
    return value


Text = TextValue("text", str, str)
IntText = TextValue("int32 in decimal", parse_java_int, str)
LongText = TextValue("int64 in decimal", parse_java_long, str)
UuidText = TextValue("uuid in base64", parse_uuid, build_uuid)

JsonText = TextValue("string", _json_text, str)
JsonInt = TextValue("number, int32", _json_int, int)
JsonLong = TextValue("number, int64", lambda value: _json_integer(value, MAX_LONG), int)
JsonUuid = TextValue("string, uuid in base64", lambda value: parse_uuid(_json_text(value)), build_uuid)
JsonVoters = TextValue(
    'array of `{"voterId": int32}`', _json_voters, lambda voters: [{"voterId": voter} for voter in voters]
)
JsonNoVoters = TextValue("array, empty", _json_no_voters, list)
