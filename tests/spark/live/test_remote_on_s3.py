"""`klogtool remote` on an S3 endpoint of this machine: the answers of a folder; and faults on the wire."""

from __future__ import annotations

import json
import pathlib
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from live.test_spark_s3 import S3, s3
from planned import read
from remote_stores import LOGS, STORE, ZSTD
from running import Done, run_here

__all__ = ["s3"]

Path = pathlib.Path
WORDS = ["--metadata", str(LOGS), "--local", str(LOGS)]


def run(store: str | Path, command: str, *words: str) -> Done:
    now = ["--now", "2099-01-01"] if command == "verify" else []
    done = run_here(["remote", command, str(store), *words, *WORDS, *now, "--json"], LOGS.parent)
    assert "Traceback" not in done.told
    return done


def answer(done: Done, place: str) -> list[dict[str, Any]]:
    text = done.out.decode().replace(place, "STORE").replace("s3://", "").replace("logs/store", "STORE")
    rows = [json.loads(line) for line in text.splitlines()]
    for row in rows:
        for field in ("seconds", "cure", "output", "detail", "event_ms"):  # the times of objects
            row.pop(field, None)
    return rows


class Faulty:
    """A WSGI application around another one: faults in place of objects' bytes, as `fault_of` says."""

    def __init__(self, app: Any, fault_of: Callable[[], str | None]) -> None:
        self._app, self._fault_of = app, fault_of

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        is_object = environ["REQUEST_METHOD"] == "GET" and "HTTP_RANGE" in environ
        fault = self._fault_of() if is_object else None
        if fault is None:
            return self._app(environ, start)  # type: ignore[no-any-return]
        if fault == "503":
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"]
        if fault == "short":
            return self._short(environ, start)
        raise ConnectionResetError  # the server ends the connection

    def _short(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """An answer that has fewer bytes, and a header that says so."""
        said: list[tuple[str, list[tuple[str, str]]]] = []
        body = b"".join(self._app(environ, lambda status, headers, *_: said.append((status, headers))))
        status, headers = said[0]
        body = body[: len(body) - 1 - len(body) // 3]
        kept = [(name, value) for name, value in headers if name.lower() not in ("content-length", "content-range")]
        first = int(environ["HTTP_RANGE"].partition("=")[2].partition("-")[0])
        ranges = f"bytes {first}-{first + len(body) - 1}/*"
        start(status, [*kept, ("Content-Length", str(len(body))), ("Content-Range", ranges)])
        return [body]


@pytest.fixture
def uri(s3: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("klogtool.log.storage.WAITS_S", (0.0, 0.0, 0.0))
    return s3.put(STORE, "store")


def test_the_answers_of_a_folder(uri: str, tmp_path: Path) -> None:
    for command in ("ls", "verify"):
        words = ["--deep"] if command == "verify" else []
        there, here = run(uri, command, *words), run(STORE, command, *words)
        assert there.status == here.status
        assert answer(there, uri) == answer(here, str(STORE))
    assert run(uri, "fetch", "orders-0", "--output", str(tmp_path / "there")).status == 1
    assert run(STORE, "fetch", "orders-0", "--output", str(tmp_path / "here")).status == 1
    for path in (tmp_path / "here").glob("*.log"):
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("fault", ["503", "reset", "short"])
def test_a_fault_now_and_then_changes_no_answer(s3: S3, uri: str, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    rng = random.Random(fault)
    monkeypatch.setattr(s3.server, "_app", Faulty(s3.server._app, lambda: fault if rng.random() < 0.15 else None))
    there, here = run(uri, "verify", "--jobs", "1"), run(STORE, "verify")
    assert answer(there, uri) == answer(here, str(STORE))


def test_what_never_comes_is_told(s3: S3, uri: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(s3.server, "_app", Faulty(s3.server._app, lambda: "503"))
    done = run(uri, "fetch", "orders-0", "--output", str(tmp_path / "there"))
    assert (done.status, (tmp_path / "there").exists()) == (4, False)
    assert "s3://" in done.err


def test_commands_that_take_a_path(s3: S3, uri: str) -> None:
    folder = next(STORE.glob("orders-0-*"))
    segment = sorted(folder.glob("*.log"))[2].name
    for words in (
        ["lookup", "PATH", "--offset", "70", "--timestamp", "latest"],
        ["read", "PATH", "--offset", "70", "--records", "--isolation", "read_committed"],
        ["dump-log", "PATH"],
        ["dump-log", f"PATH/{segment}"],
    ):
        answers = []
        store, mark, query = uri.partition("?")
        for place, behind in ((f"{store}/{folder.name}", mark + query), (str(folder), "")):
            paths = [word.replace("PATH", place) + (behind if "PATH" in word else "") for word in words]
            done = run_here([*paths, "--json"], LOGS.parent)
            answers.append((done.status, done.out.decode().replace(place, "PLACE")))
        assert answers[0] == answers[1]
        assert answers[0][1].count("\n") > 1


@pytest.mark.parametrize("folder", [next(STORE.glob("old-0-*")), ZSTD], ids=["plain", "chunks"])
def test_spark_reads_a_store(spark: Any, s3: S3, folder: Path) -> None:
    uri = s3.put(folder, f"tiered/{folder.name}")
    options = {"includeHeaders": "true", "splitBytes": "500", "kafka.isolation.level": "read_committed"}
    there, here = (spark.read.format("klog").options(**options).load(place) for place in (uri, str(folder)))
    assert there.rdd.getNumPartitions() > 1
    assert there.count() == read(folder, **options).num_rows > 20
    assert there.exceptAll(here).count() == here.exceptAll(there).count() == 0


def test_answers_that_are_always_short_are_no_damage(s3: S3, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3.server, "_app", Faulty(s3.server._app, lambda: "short"))
    found = [row for row in answer(run(uri, "verify"), uri) if row["type"] == "finding"]
    damage = [row["id"] for row in found if row["id"] in ("remote-batch", "remote-index", "remote-object-corrupt")]
    assert damage == []
    assert "remote-unchecked" in [row["id"] for row in found]
