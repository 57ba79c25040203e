"""Values that ask for much more memory than they have bytes, in a process that has little."""

from __future__ import annotations

import json
import pathlib

import pytest
from running import ROOT, run_apart, with_memory

from klogtool.format.batch import Record, build_batch

MEMORY_BYTES = 1 << 30
SCHEMAS = {
    "1.avsc": {"type": "array", "items": "null"},
    "2.avsc": {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
    "3.avsc": {"type": "map", "values": {"type": "array", "items": "string"}},
    "4.avsc": {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}, {"name": "s", "type": "R"}]},
}


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


VALUES = {
    "json": [b"[" + b"[]," * (5 << 20) + b"[]]", b'{"a":' * 100_000, b'"' + b"\\u0000" * (1 << 20) + b'"', b"9" * 4301],
    "msgpack": [
        b"\xdd\x00\x0f\xff\xff" * 200_000,
        b"\xdc\xff\xff" + b"\x90" * 65535,
        b"\x81" * 1_000_000,
        b"\x90" * 99,
    ],
    "avro": [
        framed(1, b"\xfe" + b"\xff" * 8 + b"\x01"),
        framed(2, b"\xfe\xff\xff\xff\x0f"),
        framed(3, b"\xfe\xff\xff\xff\x0f" + b"\xfe\xff\xff\xff\x0f"),
        framed(3, b"\x01\xff\xff\xff\xff\x0f\x02" * 1000),
        framed(4, b""),
        framed(1, b"\x80\x80\x20" * 1000),
    ],
    "protobuf": [framed(21, b"\0" + b"\x1a\0" * (1 << 20)), framed(21, b"\0" + b"\n\xff\xff\xff\xff\x0f"), b"\0" * 6],
    "string": [b"\xed\xa0\x80" * (1 << 17), b"\x1b" * (1 << 17)],
}


@pytest.mark.parametrize(("form", "output"), [*((form, "json") for form in VALUES), ("string", "text")])
def test_memory_is_bounded(form: str, output: str, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.parent.mkdir()
    batches = [build_batch([Record(n, n, None, value)], base_offset=n) for n, value in enumerate(VALUES[form])]
    log.write_bytes(b"".join(batches))
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    for name, schema in SCHEMAS.items():
        (schemas / name).write_text(json.dumps(schema))
    (schemas / "21.desc").write_bytes((ROOT / "docs/examples/values/schemas/21.desc").read_bytes())
    ways = ("--value-format", form, "--schemas", schemas, "--format", output)
    done = run_apart("dump-log", log, *ways, before=with_memory(MEMORY_BYTES))
    assert "Traceback" not in done.err
    assert done.status == 0, done.err
    assert done.out.count(b"payload: " if output == "text" else b'"value_decoded":{') == len(VALUES[form])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: None, "no schemas in it"),
        (lambda folder: (folder / "1.avsc").mkdir(), "a folder, not a file"),
        (lambda folder: (folder / "1.avsc").symlink_to("/dev/zero"), "a device, not a file"),
        (lambda folder: (folder / "1.avsc").symlink_to("gone"), "a link to a file that is not there"),
        (lambda folder: (folder / "1.avsc").open("wb").truncate(5 << 20), "too large for a schema"),
        (lambda folder: folder.rmdir(), "no such file"),
        (lambda folder: (folder.rmdir(), folder.write_text("")), "not a directory"),
    ],
)
def test_a_folder_of_schemas_that_cannot_be_read_is_one_line(make: object, told: str, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "sche mas"
    folder.mkdir()
    assert callable(make)
    make(folder)
    log = ROOT / "docs/examples/values/logdir/orders-0"
    done = run_apart("dump-log", log, "--value-format", "avro", "--schemas", folder)
    assert told in done.told
    assert done.status in (2, 4)
    assert len(done.told.splitlines()) <= 2
