"""Records as Arrow out of folders, into Arrow and Parquet files, by the command, and as the page shows it."""

from __future__ import annotations

import doctest
import io
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from arrow_tables import (
    LOGS,
    batches_of,
    both_say_the_same,
    generated,
    needs_kernel,
    pa,
    parquet,
    read,
    table_of,
)
from readers import log_file
from running import FIXTURES, ROOT, Done

from klogtool import kernels
from klogtool.errors import Unsupported
from klogtool.log.file import LogFile, Unreadable
from klogtool.render import arrow, arrow_batches
from klogtool.render.arrow import LogPart, RecordQuery, find_left_out, find_logs, schema, walk_record_batches
from klogtool.render.scan import scan

# ---------------------------------------------------------------- files and folders


def test_only_the_columns_that_are_asked_for_in_their_order() -> None:
    names = ["offset", "_compression", "key"]
    table = (
        both_say_the_same(generated(3), columns=names)[0] if kernels.native else read(generated(3), columns=names)[0]
    )
    assert table.schema.names == names
    with pytest.raises(ValueError, match=r"no such column: nope \(there are key, value"):
        schema(["key", "nope"])
    with pytest.raises(ValueError, match="none at all"):
        schema([])


@needs_kernel
@pytest.mark.parametrize("name", schema().names)
def test_each_column_by_itself_is_as_among_all(name: str) -> None:
    data = generated(5)
    assert read(data, columns=[name])[0].equals(read(data, "reference")[0].select([name]))


def test_a_partition_dir_is_read_in_order_of_base_offset() -> None:
    folder = FIXTURES / "three-magics/logdir/plain-0"
    table = table_of(scan(folder).to_reader())
    assert table["offset"].to_pylist() == sorted(table["offset"].to_pylist())
    assert table["topic"].unique().to_pylist() == ["plain"]
    assert table["partition"].unique().to_pylist() == [0]
    assert table["_segment"].unique().to_pylist() == sorted(path.name for path in folder.glob("*.log"))


def test_a_log_dir_is_read_without_doomed_stray_and_future_partitions() -> None:
    folder = FIXTURES / "two-disks/logdir/d2"
    assert find_logs(folder) == [str(path) for path in sorted(folder.glob("t-2/*.log"))]
    left_out = find_left_out(folder)
    assert [pathlib.Path(path).name.rpartition("-")[2] for path in left_out] == ["delete", "future"]
    table = table_of(scan(left_out[1]).to_reader())
    assert table["topic"].unique().to_pylist() == ["t"]
    assert table["partition"].unique().to_pylist() == [1]
    assert find_left_out(folder / "t-2") == []


def test_a_file_outside_of_a_partition_dir_has_no_topic(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "copy.log"
    path.write_bytes(batches_of(1))
    names = ["topic", "partition", "_segment"]
    table = table_of(scan(path, columns=names).to_reader(), names)
    assert table.to_pylist()[0] == {"topic": None, "partition": None, "_segment": "copy.log"}


def test_names_that_are_no_text_are_escaped(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t\udcff-3"
    folder.mkdir()
    (folder / "0\udcfe.log").write_bytes(batches_of(1))
    row = table_of(scan(folder / "0\udcfe.log").to_reader()).to_pylist()[0]
    assert (row["topic"], row["partition"], row["_segment"]) == (
        None,
        None,
        "0\\xfe.log",
    )  # of no topic: no broker finds it


def test_an_empty_log_gives_no_record_batch(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.touch()
    assert list(scan(path).to_reader()) == []


def written(write: Callable[..., None], data: bytes, target: pathlib.Path, names: list[str] | None = None) -> Any:
    """The file that a writer makes of a log, and the table that is to be in it."""
    with log_file(data) as path, LogFile(path) as file, target.open("wb") as sink:
        write(walk_record_batches(file, LogPart("t", 3), RecordQuery(names)), sink, names)
    return read(data, "reference", columns=names)[0]


@pytest.mark.parametrize("names", [None, ["offset", "headers"], ["value"]])
def test_an_arrow_file_holds_all_of_it(tmp_path: pathlib.Path, names: list[str] | None) -> None:
    expected = written(arrow.write_arrow, generated(1), tmp_path / "x.arrow", names)
    with pa.memory_map(str(tmp_path / "x.arrow")) as source:
        found = pa.ipc.open_file(source).read_all()
        assert found.schema == schema(names)
        assert found.equals(expected)


@pytest.mark.parametrize("names", [None, ["offset", "headers"], ["value"]])
def test_a_parquet_file_holds_all_of_it(tmp_path: pathlib.Path, names: list[str] | None) -> None:
    expected = written(arrow.write_parquet, generated(2), tmp_path / "x.parquet", names)
    found = parquet.read_table(tmp_path / "x.parquet")
    found.validate(full=True)
    assert found.equals(expected)


def test_a_row_group_is_cut_at_so_many_rows_or_bytes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "ROW_GROUP_ROWS", 1000)
    monkeypatch.setattr(arrow_batches, "BATCH_ROWS", 400)
    written(arrow.write_parquet, batches_of(300), tmp_path / "x.parquet")
    about = parquet.read_metadata(tmp_path / "x.parquet")
    groups = [about.row_group(n).num_rows for n in range(about.num_row_groups)]
    assert sum(groups) == 3000
    assert all(1000 <= rows < 1400 for rows in groups[:-1])


def test_keys_and_values_have_no_dictionary(tmp_path: pathlib.Path) -> None:
    written(arrow.write_parquet, batches_of(50), tmp_path / "x.parquet")
    group = parquet.read_metadata(tmp_path / "x.parquet").row_group(0)
    by_name = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert not by_name["key"].has_dictionary_page
    assert not by_name["value"].has_dictionary_page
    assert by_name["topic"].has_dictionary_page
    assert "DELTA_BINARY_PACKED" in by_name["offset"].encodings


@pytest.mark.parametrize("write", [arrow.write_arrow, arrow.write_parquet])
def test_a_log_without_records_is_a_file_without_rows(tmp_path: pathlib.Path, write: Callable[..., None]) -> None:
    written(write, b"", tmp_path / "x")
    open_file = parquet.read_table if write is arrow.write_parquet else lambda path: pa.ipc.open_file(path).read_all()
    assert open_file(tmp_path / "x").num_rows == 0
    assert open_file(tmp_path / "x").schema.names == schema().names


def test_without_pyarrow_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for ask in (schema, lambda: list(scan(LOGS[0]).to_reader()), lambda: arrow.write_arrow([], io.BytesIO())):
        with pytest.raises(Unsupported, match=r"^Arrow and Parquet need pyarrow: pip install klogtool\[arrow\]$"):
            ask()


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_dump_log_writes_a_file(klogtool: Callable[..., Done], tmp_path: pathlib.Path, form: str) -> None:
    target = tmp_path / f"out.{form}"
    done = klogtool("dump-log", "logdir/t-0", "--format", form, "--output", target, folder=FIXTURES / "transactions")
    assert (done.status, done.out, done.err) == (0, b"", "")
    found = parquet.read_table(target) if form == "parquet" else pa.ipc.open_file(target).read_all()
    assert found.equals(table_of(scan(FIXTURES / "transactions/logdir/t-0").to_reader()).combine_chunks())
    assert list(tmp_path.iterdir()) == [target]


def test_dump_log_does_not_overwrite(klogtool: Callable[..., Done], tmp_path: pathlib.Path) -> None:
    (tmp_path / "out").write_text("mine")
    path = FIXTURES / "magic-0/logdir/create-0/00000000000000000000.log"
    done = klogtool("dump-log", path, "--format", "parquet", "--output", tmp_path / "out")
    assert done.status == 3
    assert (tmp_path / "out").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 1


def test_dump_log_leaves_no_file_behind_if_the_log_cannot_be_read(
    klogtool: Callable[..., Done], tmp_path: pathlib.Path
) -> None:
    done = klogtool("dump-log", FIXTURES / "no-such.log", "--format", "arrow", "--output", tmp_path / "out")
    assert done.status == 2
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_reading_comes_behind_what_was_read_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = batches_of(40)
    size = len(data) // 40
    read_into = LogFile.read_into

    def read_a_little(self: LogFile, buffer: bytearray, position: int, wanted: int) -> memoryview:
        if position >= 30 * size:
            raise Unreadable("bad sector", path=self.path, position=position)
        return read_into(self, buffer, position, min(wanted, 10 * size + 64))

    monkeypatch.setattr(LogFile, "read_into", read_a_little)
    with log_file(data) as path:
        found = iter(scan(path, jobs=1, on_damage=lambda _: None).to_reader())
        assert next(found)["offset"].to_pylist() == list(range(300))
        with pytest.raises(Unreadable, match="bad sector"):
            list(found)


# ---------------------------------------------------------------- the page


def test_the_examples_of_the_page_print_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "arrow.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```pycon\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE))
    told: list[str] = []
    example = doctest.DocTestParser().get_doctest(blocks, {}, "arrow.md", "docs/arrow.md", 0)
    assert doctest.DocTestRunner(verbose=False).run(example, out=told.append).failed == 0, "".join(told)
    assert [name for name in schema().names if f"`{name}`" not in page] == []
