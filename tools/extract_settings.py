#!/usr/bin/env python3
"""Take a broker's settings out of the jars of releases: types, ranges and words, without which no start succeeds.

`extract_settings.py RELEASE=JAR_DIR... > klogtool/broker/server_settings.json`, the oldest release first. One row a
line; `since` and `until` are the first and the last of the releases with that row, where it does not have them all.
Settings that take any text are left out. tests/kafka/ServerSettings.java asks Kafka's classes.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import TypeAlias

JAVA = pathlib.Path(__file__).resolve().parents[1] / "tests/kafka/ServerSettings.java"
NUMBERS = ("int", "short", "long", "double")
Row: TypeAlias = tuple[tuple[str, object], ...]


def rows_of(jars: pathlib.Path) -> list[Row]:
    """Return the rows of a release, in the order in which Kafka looks at the settings."""
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", classes, JAVA], check=True)
        command = ["java", "-cp", f"{classes}:{jars}/*", JAVA.stem, "table"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [row for line in lines if line.startswith(">") and (row := parse_row(line[1:]))]


def number(text: str) -> int | float:
    """Return the number as Java has it."""
    return float(text) if "." in text else int(text)


def parse_row(line: str) -> Row:
    """Return the fields of a line; empty for a setting that takes any text."""
    name, kind, *rest = line.split("\t")
    told: Mapping[str, str] = dict(word.partition("=")[::2] for word in rest)
    words = [word for word in (told.get("validStrings") or told.get("validString", "")).split(",") if word]
    is_list = told["validator"] == "ValidList"
    fields = {
        "name": name,
        "type": kind,
        "required": "required" in told,
        "default": number(told["default"]) if kind in NUMBERS and told.get("default", "null") != "null" else None,
        "least": number(told["min"]) if "min" in told else None,
        "most": number(told["max"]) if "max" in told else None,
        "words": words,
        "ignores_case": told["validator"] == "CaseInsensitiveValidString",
        "not_empty": told["validator"] == "NonEmptyString" or told.get("isEmptyAllowed") == "false",
    }
    is_any = kind in ("string", "password", "class", "list") and not any((is_list, words, fields["not_empty"]))
    return (
        ()
        if is_any and not fields["required"]
        else tuple((key, value) for key, value in fields.items() if value or (value == 0 and value is not False))
    )


def fold(releases: Mapping[str, list[Row]]) -> list[dict[str, object]]:
    """Return each row once, with the releases that have it."""
    order, names = [*releases], dict.fromkeys(row[0][1] for rows in reversed(releases.values()) for row in rows)
    places = {name: place for place, name in enumerate(names)}
    spans: list[tuple[Row, int, int]] = []
    for at, rows in enumerate(releases.values()):
        for row in rows:
            known = next((span for span in spans if span[0] == row and span[2] == at - 1), None)
            if known is not None:
                spans.remove(known)
            spans.append((row, at if known is None else known[1], at))
    folded = []
    for row, first, last in sorted(spans, key=lambda span: (places[span[0][0][1]], span[1])):
        since = {"since": order[first]} if first else {}
        folded.append(dict(row) | since | ({"until": order[last]} if last + 1 < len(order) else {}))
    return folded


def main() -> None:
    """Print the table."""
    releases = {
        release: rows_of(pathlib.Path(jars)) for release, _, jars in (word.partition("=") for word in sys.argv[1:])
    }
    print("[\n" + ",\n".join(map(json.dumps, fold(releases))) + "\n]")


if __name__ == "__main__":
    main()
