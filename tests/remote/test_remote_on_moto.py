"""The commands over a bucket of moto, an S3 server that others made: answers are those of a folder, also where the
first request for each object is refused, or its body ends early."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from remote_stores import LOGS, STORE, ZSTD
from running import Done, run_here

from klogtool.log import storage

pytest.importorskip("pyarrow.fs")
moto_app = pytest.importorskip("moto.moto_server.werkzeug_app")
werkzeug_serving = pytest.importorskip("werkzeug.serving")
boto3 = pytest.importorskip("boto3")

Path: TypeAlias = pathlib.Path
BUCKET = "tier"
KEYS = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "topsecret", "AWS_EC2_METADATA_DISABLED": "true"}
STORES = {"local": (STORE, ["--metadata", str(LOGS), "--local", str(LOGS)]), "zstd": (ZSTD, [])}
FAULTS = ("none", "503", "truncated")
Answer: TypeAlias = Callable[..., Any]


class Faulty:
    """The server, whose first answer for each object is as `fault` says."""

    def __init__(self, application: Answer) -> None:
        self._application, self.fault, self.seen = application, "none", set[str]()

    def begin(self, fault: str) -> None:
        self.fault = fault
        self.seen.clear()

    def __call__(self, environ: dict[str, Any], start_response: Answer) -> Any:
        name, is_range = environ["PATH_INFO"], "HTTP_RANGE" in environ
        if environ["REQUEST_METHOD"] != "GET" or not is_range or name in self.seen or self.fault == "none":
            return self._application(environ, start_response)
        self.seen.add(name)
        if self.fault == "503":
            start_response("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        body = b"".join(self._application(environ, start_response))
        return [body[: len(body) // 2]]  # of the length that was announced


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Faulty, int]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        patch.setattr(storage, "WAITS_S", (0.0,) * len(storage.WAITS_S))
        faulty = Faulty(moto_app.DomainDispatcherApplication(moto_app.create_backend_app))
        served = werkzeug_serving.make_server("127.0.0.1", 0, faulty, threaded=True)
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{served.server_port}", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        for name, (store, _) in STORES.items():
            for path in sorted(path for path in store.rglob("*") if path.is_file()):
                client.put_object(Bucket=BUCKET, Key=f"{name}/{path.relative_to(store)}", Body=path.read_bytes())
        yield faulty, served.server_port
        served.shutdown()
        thread.join()


def answers(done: Done) -> list[dict[str, Any]]:
    assert "Traceback" not in done.told
    assert "topsecret" not in done.told
    rows = [json.loads(line) for line in done.out.splitlines()]
    for row in rows:
        for field in ("seconds", "event_ms", "output", "cure", "detail"):  # paths and times
            row.pop(field, None)
        row["path"] = str(row.get("path")).rpartition("/")[2]
    return rows


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STORES)
def test_answers_are_those_of_a_folder(server: tuple[Faulty, int], name: str, fault: str, tmp_path: Path) -> None:
    faulty, port = server
    uri = f"s3://{BUCKET}/{name}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    store, words = STORES[name]
    for command in (
        ["ls", "STORE", *words],
        ["verify", "STORE", *words, "--deep", "--now", "2026-11-26"],
        ["fetch", "STORE", "pay-0", *words, "--output", "OUT"],
    ):
        told = []
        for place, output in ((str(store), tmp_path / "here"), (uri, tmp_path / f"there-{command[0]}")):
            faulty.begin(fault)
            put = {"STORE": place, "OUT": str(output)}
            told.append(run_here(["remote", *(put.get(word, word) for word in command), "--json"], tmp_path))
        assert bool(faulty.seen) is (fault != "none")
        assert told[1].status == told[0].status
        assert answers(told[1]) == answers(told[0])
    logs = [
        {path.name: path.read_bytes() for path in (tmp_path / one).glob("*.log")} for one in ("here", "there-fetch")
    ]
    assert logs[0] == logs[1] != {}
