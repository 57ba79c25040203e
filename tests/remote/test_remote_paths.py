"""dump-log, lookup, read and salvage take a partition in remote storage, or one of its segments, as a path: the answers
are those of the same segments on a disk, and few objects are read."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from remote_stores import LOGS, REMOTE, SEALED, STORE, WOUNDS, ZSTD, flip, pem, tiered_log_dir
from running import Done, run_here, tree_of
from unreliable_storage import Unreliable, UnreliableHttp, unreliable

from klogtool.log import storage
from klogtool.log.partition import Partition

__all__ = ["unreliable"]

Path = pathlib.Path
ONE, SEVERAL = next(STORE.glob("orders-0-*")), STORE
FAR_SEGMENTS = 32


def run(*words: object) -> Done:
    done = run_here([str(word) for word in words], REMOTE)
    assert "Traceback" not in done.told
    return done


def rows(*words: object) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in run(*words, "--json").out.splitlines()][1:]
    for row in found:
        for field in ("file", "path"):
            row.pop(field, None)
    return found


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The local partition dir, and the same closed segments in remote storage."""
    log_dir, store = tiered_log_dir(tmp_path_factory.mktemp("tiered"), segments=FAR_SEGMENTS)
    return log_dir / "t-0", next(store.iterdir())


class Seen:
    """Which segments were read, of a store that is elsewhere."""

    def __init__(self, system: Unreliable, monkeypatch: pytest.MonkeyPatch) -> None:
        self.objects: set[str] = set()
        read = system.cat_file

        def cat_file(path: str, start: int, end: int) -> bytes:
            self.objects.add(Path(path).name)
            return read(path, start, end)

        monkeypatch.setattr(system, "cat_file", cat_file)

    def segments(self, suffix: str = "log") -> set[str]:
        return {name for name in self.objects if name.endswith(f".{suffix}")}


def is_far(remote: Path, elsewhere: bool) -> str:
    return f"far://{remote}" if elsewhere else str(remote)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_lookups_are_those_of_a_disk(unreliable: Unreliable, tiered: tuple[Path, Path], elsewhere: bool) -> None:
    here, remote = tiered
    segments = Partition(str(here)).segments
    records = [one for segment in segments for batch in segment.batches() for one in batch.records()]
    records = [one for one in records if one.offset < segments[-1].base_offset]
    ends = (0, segments[-1].base_offset - 1, *(segment.base_offset for segment in segments[:-1]))
    offsets = [word for offset in ends for word in ("--offset", offset)]
    times = [word for one in records[::41] for word in ("--timestamp", one.timestamp)]
    words = [*offsets, *times, "--timestamp", "earliest"]
    want = rows("lookup", here, *words)
    got = rows("lookup", is_far(remote, elsewhere), *words, "-q")
    assert got == want
    end = {"offset": segments[-1].base_offset, "end": True}
    assert end.items() <= rows("lookup", is_far(remote, elsewhere), "--offset", segments[-1].base_offset)[0].items()


def test_a_lookup_reads_a_few_objects(
    unreliable: Unreliable, tiered: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, remote = tiered
    starts = [segment.base_offset for segment in Partition(str(here)).segments]
    seen = Seen(unreliable, monkeypatch)
    rows("lookup", f"far://{remote}", "--offset", starts[5] + 3)
    assert {name[:20] for name in seen.objects} == {f"{starts[5]:020d}"}
    seen.objects.clear()
    time = rows("lookup", here, "--offset", starts[9] + 1, "--explain")[0]["record"]["timestamp"]
    seen.objects.clear()
    assert rows("lookup", f"far://{remote}", "--timestamp", time, "-q")[0]["found"]["offset"] > 0
    assert 0 < len(seen.segments()) <= FAR_SEGMENTS.bit_length() + 1
    seen.objects.clear()
    rows("read", f"far://{remote}", "--offset", starts[7])
    assert len(seen.segments()) == 2  # the last one says where the log ends


@pytest.mark.parametrize("elsewhere", [False, True])
def test_reads_are_those_of_a_disk(unreliable: Unreliable, tiered: tuple[Path, Path], elsewhere: bool) -> None:
    here, remote = tiered
    end = Partition(str(here)).segments[-1].base_offset
    for offset in (0, 25, 333):
        for more in ([], ["--max-bytes", 300], ["--records"]):
            words = ["--offset", offset, *more]
            want, got = rows("read", here, *words), rows("read", is_far(remote, elsewhere), *words)
            assert {row.pop("end_offset", end) for row in got} == {end}  # of the closed segments
            assert [row.pop("end_offset", 0) for row in want]
            assert got == want


def test_committed_reads_are_those_of_a_fetched_partition(tmp_path: Path) -> None:
    assert run("remote", "fetch", ZSTD, "pay-0", "--output", tmp_path / "pay-0").status == 0
    for offset in (0, 3, 6, 20, 41, 46):
        words = ["--offset", offset, "--isolation", "read_committed", "--records", "--committed-only"]
        want = rows("read", tmp_path / "pay-0", *words)
        assert rows("read", next(ZSTD.glob("*/0")), *words) == want


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("kind", ["local", "zstd", "sealed"])
def test_a_dump_has_the_records_that_fetch_brings(
    unreliable: Unreliable, tmp_path: Path, kind: str, elsewhere: bool
) -> None:
    store, name = {"local": (STORE, "old-0"), "zstd": (ZSTD, "pay-0"), "sealed": (SEALED, "orders-0")}[kind]
    keys, own_keys = [], []
    if kind == "sealed":
        pytest.importorskip("cryptography")
        (tmp_path / "key.pem").write_bytes(pem())
        keys, own_keys = ["--key", f"key1={tmp_path}/key.pem"], ["--store-key", f"key1={tmp_path}/key.pem"]
    folder = next(log.parent for log in sorted(store.rglob("*.log")) if name[:-2] in str(log.parent))
    assert run("remote", "fetch", store, name, *keys, "--output", tmp_path / name).status == 0
    before = tree_of(store)
    want = [row for row in rows("dump-log", tmp_path / name) if row["type"] in ("batch", "record")]
    assert rows("dump-log", is_far(folder, elsewhere), *own_keys) == want
    one = [row for log in sorted(folder.glob("*.log")) for row in rows("dump-log", is_far(log, elsewhere), *own_keys)]
    assert one == want
    text = run("dump-log", is_far(folder, elsewhere), *own_keys).out.decode().splitlines()
    assert [line for line in text if line.startswith("Log starting offset: ")] == [
        f"Log starting offset: {int(log.name[:20])}" for log in sorted(folder.glob("*.log"))
    ]
    assert tree_of(store) == before


def test_columns_have_topic_and_partition(tmp_path: Path) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    done = run("dump-log", next(ZSTD.glob("*/0")), "--format", "arrow", "--output", tmp_path / "out.arrow")
    table = feather.read_table(tmp_path / "out.arrow")
    assert (done.status, set(table["topic"].to_pylist()), set(table["partition"].to_pylist())) == (0, {"pay"}, {0})
    assert table["offset"].to_pylist() == list(range(47))
    csv = run("dump-log", next(ZSTD.glob("*/0")), "--format", "csv").out.decode().splitlines()
    assert {line.split(",")[2] for line in csv[1:]} == {'"pay"'}


def test_a_copy_in_remote_storage_fills_holes(
    unreliable: Unreliable, tiered: tuple[Path, Path], tmp_path: Path
) -> None:
    here, remote = tiered
    hurt = tmp_path / "t-0"
    hurt.mkdir()
    for file in here.iterdir():
        (hurt / file.name).write_bytes(file.read_bytes())
    log = sorted(hurt.glob("*.log"))[3]
    log.write_bytes(log.read_bytes()[:500] + bytes(300) + log.read_bytes()[800:])
    alone = run("salvage", hurt, "--output", tmp_path / "alone")
    assert alone.status == 1
    for n, place in enumerate((str(remote), f"far://{remote}")):
        filled = run("salvage", hurt, "--replica", place, "--output", tmp_path / f"filled{n}")
        assert filled.status == 0, filled.told
        for log in here.glob("*.log"):
            assert (tmp_path / f"filled{n}" / log.name).read_bytes() == log.read_bytes()
    saved = run("salvage", hurt, "--replica", remote, "--plan-out", tmp_path / "plan")
    assert (saved.status, (tmp_path / "plan").exists()) == (3, False)
    assert "klogtool remote fetch" in saved.told


def test_what_is_no_partition_is_told() -> None:
    done = run("lookup", SEVERAL, "--offset", 0)
    assert (done.status, done.out) == (4, b"")
    assert "klogtool remote " in done.told
    done = run("lookup", next(SEALED.rglob("*.log")).parent, "--offset", 0)
    assert (done.status, done.out) == (4, b"")
    assert "--key key1=FILE" in done.told


@pytest.mark.parametrize("wound", WOUNDS)
@pytest.mark.parametrize("suffix", ["log", "index", "timeindex", "leader_epoch_checkpoint", "indexes", "rsm-manifest"])
def test_damaged_objects_are_told(tmp_path: Path, suffix: str, wound: Any) -> None:
    for store in (STORE, ZSTD):
        for source in store.rglob("*"):
            if source.is_file() and ("pay-" in str(source)):
                place = tmp_path / store.parent.name / source.relative_to(store)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(source.read_bytes())
    for file in sorted(tmp_path.rglob(f"*.{suffix}"))[:1]:
        if wound is not flip or file.stat().st_size:
            wound(file)
        if not list(file.parent.glob("*.log")):
            continue
        for words in (["dump-log", "--json"], ["lookup", "--offset", 3, "--timestamp", 0], ["read", "--offset", 3]):
            assert run(words[0], file.parent, *words[1:]).status in (0, 1, 4)


@pytest.mark.parametrize("place", ["far://AKID:S3CR3T@{}", "far://{}?sig=S3CR3T", "http://AKID:S3CR3T@{}"])
def test_passwords_of_a_uri_are_never_shown(
    unreliable: Unreliable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    def opened(place: storage.Place) -> tuple[Unreliable | UnreliableHttp, str]:
        if place.scheme == "http":
            return UnreliableHttp(unreliable, "http://AKID:S3CR3T@"), place.uri
        return unreliable, place.uri.rpartition("@")[2].removeprefix("far://").partition("?")[0]

    monkeypatch.setattr(storage, "_fsspec_system", opened)
    store, folder, logs = place.format(STORE), place.format(ONE), ["--metadata", LOGS, "--local", LOGS]
    for form in ("--json", "--quiet"):
        for words in (
            ["remote", "ls", store, *logs],
            ["remote", "verify", store, *logs],
            ["remote", "fetch", store, "orders-0", *logs],
            ["remote", "fetch", store, "none-0"],
            ["remote", "fetch", store, "orders-0", "--from", "2099-01-01"],
            ["remote", "metadata", store, "--adopt", "A" * 22],
            ["lookup", folder, "--offset", 9999, "--timestamp", "max"],
            ["lookup", store, "--offset", 1],
            ["read", folder, "--offset", 9999],
            ["read", folder, "--offset", 60, "--records"],
            ["dump-log", folder],
            ["free", LOGS, "--remote", store],
            ["doctor", LOGS, "--remote", store],
            ["salvage", LOGS / "orders-0", "--replica", folder],
        ):
            done = run(*words, *([] if words[0] in ("salvage", "free") and form == "--quiet" else [form]))
            assert done.out or done.err or form == "--quiet"
            assert "S3CR3T" not in done.told, words
            assert b"S3CR3T" not in done.out, words
