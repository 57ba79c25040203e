"""JSON by RFC 8259: UTF-8, no NaN, no name twice in an object, no number that would lose its size."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from klogtool.decoding.bounds import Budget, to_json
from klogtool.decoding.decoded import Reading, bytes_form
from klogtool.decoding.framing import find_framing
from klogtool.errors import Corrupt

LONGEST_NUMBER = 4300


def decode_json(data: bytes, _: str | None) -> Reading:
    """Decode JSON, also behind the id of a schema (Confluent's JSON Schema serializer)."""
    framing = find_framing(data)  # no JSON begins with such a byte
    if framing is None:
        return Reading(parse_json(data))
    return Reading(parse_json(framing.payload), framing.ids[-1])


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text. Raises Corrupt if it is none, or too large or too deep."""
    Budget(len(data)).take(sum(map(data.count, (b",", b"[", b"{"))))
    try:
        text = data.decode()
        value = json.loads(
            text, parse_constant=_constant, parse_int=_int, parse_float=_float, object_pairs_hook=_object
        )
    except UnicodeDecodeError as error:
        raise Corrupt(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        at = len(text[: error.pos].encode(errors="surrogatepass"))
        raise Corrupt(f"not JSON at byte {at}" if text.strip(" \t\r\n") else "not JSON: empty") from None
    except RecursionError:
        raise Corrupt("nested too deeply") from None
    return to_json(value, bytes_form, size=len(data))


def _constant(name: str) -> NoReturn:
    raise Corrupt(f"not JSON: {name}")


def _int(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise Corrupt(f"a number with {len(digits):,} digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number) or (number == 0 and re.search("[1-9]", digits.lower().partition("e")[0])):
        raise Corrupt("a number beyond a double")
    return number


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Corrupt(f"the name {json.dumps(twice)[:60]} is twice in an object")
    return row
