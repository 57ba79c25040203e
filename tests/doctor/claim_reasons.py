"""The law of claims: whatever is null in one has a reason beside it, and nothing else has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

OPEN = {
    "broker": ("starts", "ends", "leader_elected"),
    "log-dir": ("online",),
    "partition": ("served", "log_start_offset", "log_end_offset", "deleted", "renamed", "rewritten"),
    "option": ("readable",),
}
PARTS = {"lost": ("records",), "gone_already": ("ranges",), "hidden": ("records",)}


def without_reason(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The claims, or parts of claims, that have a null without a reason, or a reason without a null."""
    return [told for row in rows if row["type"] == "claim" for told in _wrong(row)]


def _wrong(claim: dict[str, Any]) -> Iterator[str]:
    parts = [("", claim, OPEN[claim["about"]])]
    parts += [(name, claim[name], fields) for name, fields in PARTS.items() if name in claim]
    for name, part, fields in parts:
        nulls = [field for field in fields if part[field] is None]
        if bool(nulls) != (part["reason"] is not None):
            yield f"{claim['about']} {claim.get('path')} {name} {nulls}: {part['reason']}"
