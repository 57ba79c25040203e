"""Log dirs on an S3 endpoint of this machine (moto), which counts what it is asked for; and on what fsspec opens."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from live.conftest import FOR_S3
from loading import make
from planned import read
from raw_batches import build_batch
from running import FIXTURES, run_here

from klogtool.format.batch import Record
from klogtool.log.probing import NEAR_BYTES
from klogtool.log.storage import open_place

BUCKET = "logs"
LARGE = 500_000


class Counting:
    """A WSGI application around another one. asked: (method, path, range, bytes sent) of each request."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.asked: list[tuple[str, str, str, int]] = []

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = b"".join(self._app(environ, start))
        wanted = environ.get("HTTP_RANGE", "")
        sent = 0 if environ["REQUEST_METHOD"] == "HEAD" else len(body)
        self.asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], wanted, sent))
        return [body]

    def gets(self, end: str = ".log") -> list[tuple[str, str, str, int]]:
        return [request for request in self.asked if request[0] == "GET" and request[1].endswith(end)]


class S3:
    """The endpoint, a URL. server: what it was asked."""

    def __init__(self, server: Counting, port: int) -> None:
        self.server, self._port = server, port
        self.endpoint = f"http://127.0.0.1:{port}"

    def client(self) -> Any:
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1")

    def uri(self, bucket: str, prefix: str) -> str:
        return f"s3://{bucket}/{prefix}?endpoint_override=127.0.0.1:{self._port}&scheme=http&region=us-east-1"

    def put(self, folder: pathlib.Path, prefix: str) -> str:
        """A folder as objects; its URI."""
        client = self.client()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                client.put_object(Bucket=BUCKET, Key=f"{prefix}/{path.relative_to(folder)}", Body=path.read_bytes())
        self.server.asked.clear()
        return self.uri(BUCKET, prefix)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    with pytest.MonkeyPatch.context() as patch:
        for name, value in FOR_S3.items():
            patch.setenv(name, value)
        counting = Counting(DomainDispatcherApplication(create_backend_app))
        server = make_server("127.0.0.1", 0, counting, threaded=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        endpoint = S3(counting, server.server_port)
        endpoint.client().create_bucket(Bucket=BUCKET)
        yield endpoint
        server.shutdown()
        thread.join()


@pytest.fixture
def large_batches(tmp_path: pathlib.Path) -> pathlib.Path:
    """20 batches of half a megabyte."""

    def batch(offset: int) -> bytes:
        return build_batch([Record(offset, 1_700_000_000_000 + offset, b"k", bytes(LARGE))], partition_leader_epoch=1)

    make(tmp_path / "t-0", {0: [batch(n) for n in range(20)]})
    return tmp_path


@pytest.mark.parametrize("table", ["records", "batches", "segments"])
def test_the_same_rows_as_from_this_machine(s3: S3, table: str) -> None:
    folder = FIXTURES / "transactions" / "logdir"
    here, there = read(folder, table=table), read(s3.put(folder, "transactions"), table=table)
    left = [c for c in here.column_names if c not in ("file", "modified", "log_dir")]
    assert there.select(left).equals(here.select(left))
    committed = {"kafka_isolation_level": "read_committed"}
    assert read(s3.put(folder, "transactions"), **committed).equals(read(folder, **committed))


def test_headers_of_large_batches_do_not_cost_their_records(s3: S3, large_batches: pathlib.Path) -> None:
    uri = s3.put(large_batches, "large")
    assert read(uri, table="batches").num_rows == 20
    gets = s3.server.gets()
    assert len(gets) <= 23
    # Nothing follows the last batch of a log: its checksum says that it is the last, after a look at its header.
    assert sum(sorted(sent for *_, sent in gets)[:-1]) < 20 * 5000 + NEAR_BYTES
    assert all(wanted for _, _, wanted, _ in gets), "a whole object was asked for"


def test_records_take_few_requests(s3: S3, large_batches: pathlib.Path) -> None:
    uri = s3.put(large_batches, "large")
    assert read(uri).num_rows == 20
    gets = s3.server.gets()
    assert len(gets) <= 2
    assert sum(sent for *_, sent in gets) < 20.5 * LARGE


def test_spark_reads_from_there(
    s3: S3, spark: Any, large_batches: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = s3.put(large_batches, "spark")
    offsets = [row.offset for row in spark.read.format("klog").load(uri).select("offset").collect()]
    assert offsets == list(range(20))


def test_what_only_fsspec_opens() -> None:
    import fsspec

    folder = FIXTURES / "transactions" / "logdir"
    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/copy", recursive=True)
    open_place.cache_clear()
    assert read("memory://copy").equals(read(folder))
    assert read("memory://copy", storageOptions="{}").num_rows == read(folder).num_rows


def test_an_export_to_a_prefix_adds_what_is_new(s3: S3, tmp_path: pathlib.Path) -> None:
    from klogtool.log.storage import Place, file_system

    logs = FIXTURES / "transactions" / "logdir"
    uri = s3.put(tmp_path, "exports/broker-1")
    for expected in (148, 0):
        done = run_here(["export", str(logs), "--output", uri, "--json"], tmp_path)
        assert (done.status, json.loads(done.out.splitlines()[-1])["records"]) == (0, expected), done.err
    listed = s3.client().list_objects_v2(Bucket=BUCKET, Prefix="exports/broker-1/")["Contents"]
    names = {found["Key"].removeprefix("exports/broker-1/") for found in listed}
    with file_system(Place(uri))[0].open_input_file(f"{BUCKET}/exports/broker-1/_klogtool_manifest.json") as source:
        manifest = json.loads(source.read())
    named = {file["name"] for one in manifest["partitions"] for file in one["files"]}
    assert names == named | {"_klogtool_manifest.json"}
    client = s3.client()  # of a run that was killed before its manifest: it goes, and nothing else does
    orphan = next(iter(named)).replace(".parquet", "1.parquet")
    client.put_object(Bucket=BUCKET, Key=f"exports/broker-1/{orphan}", Body=b"half")
    assert run_here(["export", str(logs), "--output", uri], tmp_path).status == 0
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix="exports/broker-1/")["Contents"]
    left = {found["Key"].removeprefix("exports/broker-1/") for found in listed}
    # pyarrow keeps the folder of what it deletes, as an empty object; readers of Parquet pass over it.
    assert {name for name in left if not name.endswith("/")} == names
