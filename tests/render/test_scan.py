"""`klogtool.scan`: an Arrow stream that engines read as it is, and that leaves out nothing but what was asked for."""

from __future__ import annotations

import doctest
import pathlib
import random
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from arrow_tables import pa
from kafka.layout import Record, build_records
from raw_batches import raw_batch
from running import FIXTURES, ROOT

import klogtool
from klogtool.errors import Corrupt

LOG_DIR = FIXTURES / "transactions/logdir"
PARTITION = LOG_DIR / "t-0"


def rows_by_polars(log: klogtool.LogScan) -> int:
    return int(pytest.importorskip("polars").DataFrame(log).height)


def rows_by_duckdb(log: klogtool.LogScan) -> int:
    return int(pytest.importorskip("duckdb").sql("SELECT count(*) FROM log").fetchall()[0][0])


def rows_by_datafusion(log: klogtool.LogScan) -> int:
    return int(pytest.importorskip("datafusion").SessionContext().from_arrow(log).count())


def rows_by_pyarrow(log: klogtool.LogScan) -> int:
    return int(pa.table(log).num_rows)


ENGINES = [rows_by_polars, rows_by_duckdb, rows_by_datafusion, rows_by_pyarrow]


@pytest.mark.parametrize("rows", ENGINES)
def test_an_engine_takes_it_as_it_is_and_says_where_damage_is(rows: Callable[[klogtool.LogScan], int]) -> None:
    log = klogtool.scan(LOG_DIR)
    assert rows(log) == rows(log) == pa.Table.from_batches(log.to_reader()).num_rows
    with pytest.raises(Exception, match=r"at byte 182: .*invalid number of record headers"):
        rows(klogtool.scan(FIXTURES / "killed-mid-append/logdir/flip-bit-0"))


def test_each_reader_begins_again_and_sees_what_is_there_then(tmp_path: pathlib.Path) -> None:
    folder = shutil.copytree(PARTITION, tmp_path / "t-0")
    last = max(folder.glob("*.log"))
    data = last.read_bytes()
    last.write_bytes(b"")
    log = klogtool.scan(folder)
    before = rows_by_pyarrow(log)
    last.write_bytes(data)
    assert before < rows_by_pyarrow(log) == rows_by_pyarrow(klogtool.scan(PARTITION))


def test_a_stream_that_ends_at_damage_gives_what_is_before_it(tmp_path: pathlib.Path) -> None:
    folder = shutil.copytree(FIXTURES / "killed-mid-append/logdir/zero-tail-0", tmp_path / "t-0")
    with (folder / "00000000000000000055.log").open("ab") as log:
        log.write(b"x")  # else the zeros before it would be what a broker has preallocated
    reader = klogtool.scan(folder, columns=["offset"]).to_reader()
    seen: list[int] = []

    def read_on() -> None:
        for batch in reader:
            seen.extend(batch["offset"].to_pylist())

    with pytest.raises(Corrupt, match="at byte 1381"):
        read_on()
    assert seen[-1] == 70


@pytest.mark.parametrize("seed", range(20))
def test_what_is_asked_for_is_what_a_filter_of_all_rows_leaves(seed: int) -> None:
    pc = pytest.importorskip("pyarrow.compute")
    rng = random.Random(seed)
    every = pa.table(klogtool.scan(LOG_DIR))
    options: dict[str, Any] = {}
    kept = every
    if rng.random() < 0.7:
        first, last = (rng.choice((None, rng.randrange(-2, 70))) for _ in range(2))
        options["offsets"] = first, last
        kept = kept.filter(pc.field("offset") >= (first or -9)).filter(
            pc.field("offset") <= (99 if last is None else last)
        )
    if rng.random() < 0.5:
        time = pc.cast(every["timestamp"], pa.int64())[rng.randrange(every.num_rows)].as_py() // 1000
        options["times"] = (time, None) if rng.random() < 0.5 else (None, time)
        ms = pc.field("timestamp").cast(pa.int64())
        kept = kept.filter(ms >= time * 1000 if options["times"][0] else ms <= time * 1000)
    if rng.random() < 0.5:
        options["key"] = rng.choice([key for key in every["key"].to_pylist() if key is not None])
        kept = kept.filter(pc.field("key") == options["key"])
    if rng.random() < 0.5:
        options["filter"] = pc.field("_is_transactional") & (pc.field("_position") > 100)
        kept = kept.filter(options["filter"])
    if rng.random() < 0.5:
        options["columns"] = rng.sample(every.column_names, rng.randrange(1, 5))
        kept = kept.select(options["columns"])
    assert pa.table(klogtool.scan(LOG_DIR, **options)).equals(kept.combine_chunks()), options


def batches_of(rng: random.Random) -> list[tuple[int, int, bytes]]:
    """Six batches: first and last offset, bytes. Some are behind a gap."""
    created, offset = [], rng.randrange(3)
    for _ in range(6):
        count = rng.randrange(1, 5)
        body = build_records([Record(0, 0, n, None, rng.randbytes(9)) for n in range(count)])
        fields = {"base_offset": offset, "last_offset_delta": count - 1, "records_count": count}
        created.append((offset, offset + count - 1, raw_batch(body, **fields)))
        offset += count + rng.choice((0, 0, rng.randrange(4)))
    return created


def with_unreadable_records(batch: bytes) -> bytes:
    return batch[:61] + b"\xff" * (len(batch) - 61)


def with_other_offset(batch: bytes, rng: random.Random) -> bytes:
    return (int.from_bytes(batch[:8], "big") ^ 1 << rng.randrange(5)).to_bytes(8, "big") + batch[8:]


@pytest.mark.parametrize("seed", range(60))
def test_damage_in_a_batch_with_wanted_offsets_is_an_error_and_other_damage_loses_no_row(
    tmp_path: pathlib.Path, seed: int
) -> None:
    rng = random.Random(seed)
    batches, path = batches_of(rng), tmp_path / f"{0:020d}.log"
    wanted = min(bounds := [rng.randrange(24) for _ in range(2)]), max(bounds)
    path.write_bytes(b"".join(data for _, _, data in batches))
    sound = pa.table(klogtool.scan(path, offsets=wanted, columns=["offset", "value"]))
    n = rng.randrange(len(batches))
    for wrong in (None, rng.randrange(len(batches))):  # also one base offset, which no checksum covers
        wounded = [with_unreadable_records(data) if i == n else data for i, (_, _, data) in enumerate(batches)]
        if wrong is not None:
            wounded[wrong] = with_other_offset(wounded[wrong], rng)
        path.write_bytes(b"".join(wounded))
        log = klogtool.scan(path, offsets=wanted, columns=["offset", "value"])
        before, after = batches[n - 1][1] if n else -1, batches[n + 1][0] if n + 1 < len(batches) else None
        is_wanted = batches[n][0] <= wanted[1] and wanted[0] <= batches[n][1]
        is_known = wanted[1] <= before or (after is not None and wanted[0] >= after)
        if is_wanted or not (is_known or wrong is not None):
            with pytest.raises(Corrupt):
                list(log.to_reader())
        elif wrong is None:
            assert pa.table(log).equals(sound)


def test_several_paths_are_read_one_after_another() -> None:
    one, two = LOG_DIR / "t-1", PARTITION
    both = pa.table(klogtool.scan([one, two], columns=["partition"]))["partition"].to_pylist()
    assert both == sorted(both, reverse=True)
    assert set(both) == {0, 1}
    walked = pa.table(klogtool.scan((path for path in (one, two)), columns=["partition"]))
    assert walked["partition"].to_pylist() == both


def test_what_cannot_be_is_said_before_anything_is_read() -> None:
    pc = pytest.importorskip("pyarrow.compute")
    with pytest.raises(ValueError, match="no such column: nope"):
        klogtool.scan(PARTITION, columns=["nope"])
    with pytest.raises(ValueError, match="the filter does not fit the columns"):
        klogtool.scan(PARTITION, filter=pc.field("nope") == 1)
    with pytest.raises(klogtool.Unreadable, match="no such file or directory"):
        klogtool.scan(PARTITION / "nope")
    with pytest.raises(klogtool.KlogError, match="neither epoch milliseconds nor ISO 8601"):
        klogtool.scan(PARTITION, times=("yesterday", None))
    for wrong in (5.9, "5"):
        with pytest.raises(TypeError, match=f"an offset has to be a whole number, not {wrong!r}"):
            klogtool.scan(PARTITION, offsets=(wrong, None))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"producer_id has to be a whole number, not {wrong!r}"):
            klogtool.scan(PARTITION, producer_id=wrong)  # type: ignore[arg-type]
    for name in ("key", "grep"):
        with pytest.raises(TypeError, match=f"{name} has to be bytes, not 'k'"):
            klogtool.scan(PARTITION, **{name: "k"})
    for asked in (
        {"offsets": (None, 2**63)},
        {"offsets": (-(2**63) - 1, 5)},
        {"times": (2**63, None)},
        {"producer_id": 2**63},
    ):
        with pytest.raises(ValueError, match=r"have 64 bits, got -?922337203685477580"):
            klogtool.scan(PARTITION, **asked)  # type: ignore[arg-type]
    whole = klogtool.scan(PARTITION, offsets=(-(2**63), 2**63 - 1), times=(-(2**63), 2**63 - 1))
    assert pa.table(whole).num_rows == pa.table(klogtool.scan(PARTITION)).num_rows


def test_the_ten_questions_in_duckdb_have_the_answers_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb")
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "duckdb.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```pycon\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE))
    told: list[str] = []
    example = doctest.DocTestParser().get_doctest(blocks, {}, "duckdb.md", "docs/duckdb.md", 0)
    assert doctest.DocTestRunner(verbose=False).run(example, out=told.append).failed == 0, "".join(told)
    assert [n for n in range(1, 11) if f"\n**{n}. " not in page] == []


def test_columns_are_the_batches_of_a_scan() -> None:
    names = ["offset", "value"]
    assert pa.Table.from_batches(klogtool.columns(PARTITION, columns=names)) == pa.table(
        klogtool.scan(PARTITION, columns=names)
    )
