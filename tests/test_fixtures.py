"""Every fixture as Kafka 4.3.1 sees it: dump commands byte for byte, and every record."""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from running import FIXTURES, Done

LARGEST_FILE_BYTES = 200_000
Row = dict[str, Any]


def rows_of(fixture: pathlib.Path, name: str) -> list[Row]:
    return [json.loads(line) for line in (fixture / "golden" / name).read_text(encoding="utf-8").splitlines()]


def commands() -> list[Any]:
    return [
        pytest.param(fixture, command, id=f"{fixture.name}-{command['id']}")
        for fixture in sorted(FIXTURES.iterdir())
        for command in rows_of(fixture, "commands.jsonl")
    ]


def files_with_records() -> list[Any]:
    found: dict[tuple[pathlib.Path, str], list[Row]] = {}
    for fixture in sorted(FIXTURES.iterdir()):
        for row in rows_of(fixture, "records.jsonl"):
            found.setdefault((fixture, row["file"]), []).append(row)
    return [pytest.param(fixture, file, rows, id=f"{fixture.name}-{file}") for (fixture, file), rows in found.items()]


def in_our_form(row: Row) -> Row:
    """A line of records.jsonl with bytes decoded and Kafka's -1 for no timestamp as null."""
    decoded = {name: row[name] if row[name] is None else base64.b64decode(row[name]) for name in ("key", "value")}
    headers = [[key, value if value is None else base64.b64decode(value)] for key, value in row["headers"]]
    timestamp = None if row["timestamp"] == -1 else row["timestamp"]
    return {**row, **decoded, "headers": headers, "timestamp": timestamp}


def plain(value: dict[str, str] | None) -> bytes | None:
    """klogtool's JSON form of bytes as bytes."""
    if value is None:
        return None
    return value["utf8"].encode() if "utf8" in value else base64.b64decode(value["base64"])


def as_bytes(record: Row) -> Row:
    headers = [[key, plain(value)] for key, value in record["headers"]]
    return {**record, "key": plain(record["key"]), "value": plain(record["value"]), "headers": headers}


@pytest.mark.parametrize(("fixture", "command"), commands())
def test_dump_is_kafkas_byte_for_byte(klogtool: Callable[..., Done], fixture: pathlib.Path, command: Row) -> None:
    done = klogtool("dump-log", *command["argv"], folder=fixture)
    assert done.out == (fixture / command["stdout"]).read_bytes()
    assert "Traceback" not in done.err


@pytest.mark.parametrize(("fixture", "file", "golden"), files_with_records())
def test_every_record_is_read(
    klogtool: Callable[..., Done], fixture: pathlib.Path, file: str, golden: list[Row]
) -> None:
    """Kafka's reader judges a batch of a wrong CRC, or the end of a file, as `isvalid` or `error`."""
    doubtful = {row.get("batch_position") for row in golden if "isvalid" in row or "error" in row}
    kafkas = [in_our_form(row) for row in golden if "offset" in row]
    done = klogtool("dump-log", "--files", file, "--format", "json", folder=fixture)
    lines = [json.loads(line) for line in done.out.decode().splitlines()]
    ours = [as_bytes(row) for row in lines if row["type"] == "record" and row["batch_position"] not in doubtful]
    for mine, kafkas_row in zip(ours, kafkas, strict=True):
        assert {name: mine[name] for name in kafkas_row if name != "file"} == {
            name: value for name, value in kafkas_row.items() if name != "file"
        }


@pytest.mark.parametrize("fixture", sorted(FIXTURES.iterdir()), ids=lambda fixture: fixture.name)
def test_a_fixture_tells_its_story_and_is_small(fixture: pathlib.Path) -> None:
    title, _, story = (fixture / "README.md").read_text(encoding="utf-8").splitlines()[:3]
    assert title == f"# {fixture.name}"
    assert story.endswith(".")
    assert all(file.stat().st_size <= LARGEST_FILE_BYTES for file in fixture.rglob("*") if file.is_file())
