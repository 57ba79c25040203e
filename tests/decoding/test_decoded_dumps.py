"""dump-log and read with decoded keys and values; and without, as before."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from running import FIXTURES, ROOT, Done, run_here

EXAMPLE = ROOT / "docs/examples/values"
SCHEMAS = str(EXAMPLE / "schemas")
LOGS = EXAMPLE / "logdir"


def run(*args: object) -> Done:
    return run_here([str(arg) for arg in args], ROOT)


def records(done: Done) -> list[Any]:
    rows = [json.loads(line) for line in done.out.splitlines()]
    return [row for row in rows if row["type"] == "record"]


def test_json_has_the_decoded_form_beside_the_bytes() -> None:
    ways = ("--value-format", "avro", "--schemas", SCHEMAS, "--format", "json")
    with_them, without = (
        records(run("dump-log", LOGS / "orders-0", *ways)),
        records(run("dump-log", LOGS / "orders-0", "--format", "json")),
    )
    decoded = [row.pop("value_decoded") for row in with_them]
    assert with_them == without
    assert decoded[0]["schema"] == "17.avsc"
    assert decoded[0]["value"]["total"] == "19.99"
    assert decoded[2] == {"format": "avro", "error": f"no schema 18 in {SCHEMAS}", "hex": "00000000120600"}
    assert decoded[3] is None
    assert decoded[4]["hex"] == ""


def test_read_shows_the_same() -> None:
    ways = ("--key-format", "int", "--value-format", "long", "--format", "json")
    dumped = records(run("dump-log", LOGS / "counts-0", *ways))
    assert records(run("read", LOGS / "counts-0", "--offset", 0, "--records", *ways)) == dumped
    assert [row["key_decoded"]["value"] for row in dumped] == [7, 8]


@pytest.mark.parametrize("form", ["text", "json"])
def test_read_and_dump_log_have_the_same_lines(form: str) -> None:
    ways = ("--value-format", "protobuf", "--schemas", SCHEMAS, "--format", form)
    dumped = run("dump-log", LOGS / "visits-0", *ways).out.splitlines()
    lines = run("read", LOGS / "visits-0", "--offset", 1, "--records", *ways).out.splitlines()
    assert lines[-1] == dumped[-1]
    assert len([line for line in lines if b"/home" in line]) == 1


def test_control_records_are_not_decoded() -> None:
    partition = FIXTURES / "transactions/logdir/t-0"
    rows = records(run("dump-log", partition, "--value-format", "hex", "--format", "json"))
    assert {row["is_control"] for row in rows} == {True, False}
    assert all(("value_decoded" in row) != row["is_control"] for row in rows)
    text = run("dump-log", partition, "--value-format", "hex").out
    assert b"endTxnMarker: COMMIT" in text


@pytest.mark.parametrize("fixture", ["magic-0", "magic-1", "every-codec"])
def test_every_magic_and_codec_is_decoded(fixture: str) -> None:
    for row in records(run("dump-log", FIXTURES / fixture / "logdir", "--value-format", "string", "--format", "json")):
        value = row["value"]
        if row["is_control"]:
            assert "value_decoded" not in row
        elif value is None:
            assert row["value_decoded"] is None
        elif "utf8" in value:
            assert row["value_decoded"]["value"] == value["utf8"]


def test_keys_alone_leave_values_as_they_are() -> None:
    found = run("dump-log", LOGS / "profiles-0", "--key-format", "hex", "--skip-record-metadata").out
    assert b'| key: 616e6e payload: {"age": 31, "tags": ["new", "eu"]}\n' in found


def test_selection_goes_by_raw_bytes() -> None:
    ways = ("--value-format", "long", "--key-format", "int", "--skip-record-metadata")
    found = run("dump-log", LOGS / "counts-0", *ways, "--key", r"\x00\x00\x00\x08").out
    assert b"| key: 8 " in found
    assert b"| key: 7 " not in found


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--value-format", "avvro"], "no such format: avvro (did you mean avro?)"),
        (["--value-format", "avro"], "--value-format avro needs --schemas DIR"),
        (["--schemas", "x"], "--schemas needs --key-format or --value-format"),
        (["--value-format", "int", "--value-decoder", "cat"], "exclude each other"),
        (["--value-format", "int", "--offsets-decoder"], "--offsets-decoder decodes as kafka-dump-log does"),
        (["--value-format", "int", "--format", "arrow", "--output", "x"], "--format arrow has raw keys and values"),
        (["--value-format", "int", "--format", "csv"], "--format csv has raw keys and values"),
        (["--value-format", "int", "--format", "speedscope"], "--format speedscope has no keys and values"),
        (["--key-decoder", "cat", "--decoder-timeout", "0"], "--decoder-timeout"),
    ],
)
def test_wrong_usage_is_told(args: list[str], told: str) -> None:
    done = run("dump-log", LOGS / "orders-0", *args)
    assert done.status == 2
    assert told in done.err


def test_read_needs_records() -> None:
    done = run("read", LOGS / "orders-0", "--offset", 0, "--value-format", "int")
    assert (done.status, "need --records" in done.err) == (2, True)


@pytest.mark.parametrize(("package", "form"), [("fastavro", "avro"), ("google.protobuf", "protobuf")])
def test_a_missing_package_is_one_line(package: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = run("dump-log", LOGS / "orders-0", "--value-format", form, "--schemas", SCHEMAS)
    assert done.status == 4
    assert done.told.splitlines()[0].endswith("pip install 'klogtool[values]'")


def test_the_example_is_what_its_tool_writes(tmp_path: pathlib.Path) -> None:
    import subprocess

    subprocess.run([sys.executable, ROOT / "tools/make_values_example.py", tmp_path], check=True)
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {
        path.relative_to(EXAMPLE): path.read_bytes()
        for path in EXAMPLE.rglob("*")
        if path.is_file() and path.suffix != ".py"
    }
