"""spark export with decoded keys and values; the tasks run here."""

from __future__ import annotations

import decimal
import io
import json
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from here import HERE
from planned import read
from running import ROOT, Done, run_here

from klogtool import kernels
from klogtool.cli.spark_options import OnSpark
from klogtool.decoding.record_values import Formats
from klogtool.decoding.schemas import Schemas, read_schemas
from klogtool.errors import KlogError
from klogtool.render.decoded_columns import DecodedColumns
from klogtool.spark.starting import Session

EXAMPLE = ROOT / "docs/examples/values"
SCHEMAS = str(EXAMPLE / "schemas")


@contextmanager
def tasks_here(_: Any) -> Iterator[Session]:
    yield HERE


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnSpark, "session", tasks_here)


def export(tmp_path: pathlib.Path, topic: str, *words: str) -> Done:
    ways = ("--output", "out", "--no-progress", "--topic", topic, *words)
    return run_here(["spark", "export", str(EXAMPLE / "logdir"), *ways], tmp_path)


def table_of(tmp_path: pathlib.Path) -> pa.Table:
    (path,) = (tmp_path / "out").rglob("*.parquet")
    return pq.read_table(path, partitioning=None)


def test_json_and_reasons_are_columns_beside_the_bytes(tmp_path: pathlib.Path) -> None:
    done = export(tmp_path, "orders", "--value-format", "avro", "--schemas", SCHEMAS)
    assert (done.status, b"2 keys and values could not be decoded" in done.out) == (0, True), done.err
    rows = table_of(tmp_path).to_pylist()
    assert json.loads(rows[0]["value_decoded"])["total"] == "19.99"
    assert rows[0]["value_error"] is None
    assert rows[2]["value_error"] == f"no schema 18 in {SCHEMAS}"
    assert rows[2]["value"] == bytes.fromhex("00000000120600")
    assert (rows[3]["value"], rows[3]["value_decoded"], rows[3]["value_error"]) == (None, None, None)
    assert "key_decoded" not in rows[0]


def test_numbers_have_their_type(tmp_path: pathlib.Path) -> None:
    done = export(tmp_path, "counts", "--key-format", "int", "--value-format", "long", "--format", "json", "--by-day")
    assert json.loads(done.out.splitlines()[-1])["undecoded"] == 1
    table = table_of(tmp_path)
    assert table.schema.field("key_decoded").type == pa.int32()
    assert table.schema.field("value_decoded").type == pa.int64()
    assert table.column("key_decoded").to_pylist() == [7, 8]
    assert table.column("value_decoded").to_pylist() == [1 << 40, None]


def test_without_a_format_nothing_is_added(tmp_path: pathlib.Path) -> None:
    done = export(tmp_path, "orders", "--format", "json")
    assert "undecoded" not in json.loads(done.out.splitlines()[-1])
    assert not [name for name in table_of(tmp_path).schema.names if "decoded" in name or "error" in name]


@pytest.mark.parametrize(
    ("form", "data", "kind", "value"),
    [
        ("float", bytes.fromhex("7fc00000"), pa.float32(), "nan"),
        ("double", bytes.fromhex("fff0000000000000"), pa.float64(), "-inf"),
        ("short", b"\xff\xff", pa.int16(), "-1"),
        ("boolean", b"\x01", pa.bool_(), "True"),
        ("string", b"a\n\xff", pa.string(), "a\n\ufffd"),
        ("json", b'"\\ud800"', pa.string(), '"\\ud800"'),
        ("json", b"null", pa.string(), "null"),
        ("msgpack", b"\xc4\x01\xff", pa.string(), '{"base64":"/w=="}'),
    ],
)
def test_every_type(form: str, data: bytes, kind: Any, value: str) -> None:
    columns = DecodedColumns(Formats(value=form), None)
    raw = pa.RecordBatch.from_pydict({"value": pa.array([data, None, b"\0" * 3], pa.binary())})
    found = columns.arrays(raw, "t", ["value_decoded"])["value_decoded"]
    assert (found.type, columns.schema.field("value_decoded").type) == (kind, kind)
    assert str(found[0].as_py()) == value
    assert found[1].as_py() is None


def test_the_schemas_travel_with_the_tasks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor has no such folder: what the driver has read is enough."""
    import pickle

    folder = tmp_path / "schemas"
    shutil.copytree(SCHEMAS, folder)
    sent = pickle.dumps((Formats(value="avro"), read_schemas(str(folder))))
    shutil.rmtree(folder)
    columns = DecodedColumns(*pickle.loads(sent))
    raw = pa.RecordBatch.from_pydict({"value": pa.array([b"\0\0\0\0\x12"], pa.binary())})
    found = columns.arrays(raw, "orders", ["value_error"])["value_error"]
    assert found[0].as_py() == f"no schema 18 in {folder}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--value-format", "xml"], "no such format: xml"),
        (["--value-format", "avro"], "needs --schemas DIR"),
        (["--schemas", SCHEMAS], "--schemas needs --key-format or --value-format"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_written(words: list[str], told: str, tmp_path: pathlib.Path) -> None:
    done = export(tmp_path, "orders", *words)
    assert (done.status, told in done.err) == (2, True), done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("topic", "options"),
    [
        ("orders", {"valueFormat": "avro", "keyFormat": "string"}),
        ("counts", {"keyFormat": "int", "valueFormat": "long"}),
        ("moves", {"valueFormat": "protobuf"}),
        ("visits", {"valueFormat": "json"}),
        ("profiles", {"VALUEFORMAT": "msgpack", "keyformat": "hex"}),
    ],
)
def test_the_source_has_the_columns_of_an_export(tmp_path: pathlib.Path, topic: str, options: dict[str, str]) -> None:
    lowered = {name.lower(): form for name, form in options.items()}
    words = [
        word
        for piece in ("key", "value")
        if (form := lowered.get(f"{piece}format"))
        for word in (f"--{piece}-format", form)
    ]
    assert export(tmp_path, topic, *words, "--schemas", SCHEMAS).status == 0
    expected = pa.concat_tables(
        pq.read_table(path, partitioning=None) for path in sorted((tmp_path / "out").rglob("*.parquet"))
    )
    names = [name for name in expected.schema.names if name.endswith(("_decoded", "_error"))]
    assert len(names) == 2 * len(options)
    for more in ({}, {"maxRecordsPerPartition": 1}, {"includeMetadata": True, "includeHeaders": True}):
        table = read(EXAMPLE / "logdir", subscribe=topic, schemas=SCHEMAS, **options, **more)
        assert table.schema.names[-len(names) :] == names
        assert table.select(["offset", "value", *names]).equals(expected.select(["offset", "value", *names]))
    some = read(EXAMPLE / "logdir", subscribe=topic, schemas=SCHEMAS, columns=f"{names[0].upper()},offset", **options)
    assert some.equals(table.select([names[0], "offset"]))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"valueFormat": "avro"}, "format avro needs the option schemas"),
        ({"schemas": SCHEMAS}, "option schemas needs keyFormat or valueFormat"),
        ({"valueFormat": "long", "table": "batches"}, "option valueFormat is for the table records"),
        ({"valueFormat": "long", "columns": "key_decoded"}, "no such column"),
        ({"columns": "value_decoded"}, "no such column"),
        ({"valueFormat": "avro", "schemas": "nowhere"}, "no such file"),
        ({"valueFormat": "longs"}, "longs"),
    ],
)
def test_what_the_source_cannot_decode_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(KlogError, match=reason):
        read(EXAMPLE / "logdir", subscribe="counts", **options)


@pytest.mark.skipif(not kernels.is_built(), reason="the extension is not built")
def test_a_column_of_avro_takes_about_as_long_as_fastavro_alone() -> None:
    """docs/performance.md: 100,000 records within 1.5 s of a core. The reader in Python takes ten times as long."""
    fastavro = pytest.importorskip("fastavro")
    total = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    fields = {"id": "long", "customer": ["null", "string"], "total": total, "street": "string", "city": "string"}
    fields |= {"placed": {"type": "long", "logicalType": "timestamp-millis"}, "weight": "double"}
    schema = {"type": "record", "name": "Order", "fields": [{"name": n, "type": kind} for n, kind in fields.items()]}
    parsed, values = fastavro.parse_schema(schema), []
    for n in range(10_000):
        made = io.BytesIO(b"\0\0\0\0\x11")
        made.seek(5)
        order = {"id": n, "customer": f"customer {n}", "street": f"{n} Main St", "city": "Springfield", "weight": n / 7}
        order |= {"total": decimal.Decimal(n).scaleb(-2), "placed": n * 1000}
        fastavro.schemaless_writer(made, parsed, order)
        values.append(made.getvalue())
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    columns = DecodedColumns(Formats(value="avro"), Schemas("schemas", {"17.avsc": json.dumps(schema).encode()}))

    def by_klogtool() -> int:
        return columns.arrays(batch, "orders", ["value_decoded"])["value_decoded"].null_count

    def by_fastavro() -> list[Any]:
        return [fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None) for value in values]

    assert by_klogtool() == 0
    assert least_seconds(by_klogtool) < 1.7 * least_seconds(by_fastavro)


def least_seconds(work: Callable[[], object]) -> float:
    """Processor seconds of the fastest of five runs."""
    found = []
    for _ in range(5):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)
