"""A bucket on this machine, with the few requests of S3 by which pyarrow lists and reads; and false answers."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
# What comes in place of a range: its bytes, and how many are announced. None: the store is busy.
Answer = tuple[bytes, int] | None
Fault = Callable[[bytes, int, int], Answer]  # of a whole object, and the range


def as_wanted(data: bytes, start: int, stop: int) -> Answer:
    return data[start:stop], stop - start


def of_elsewhere(data: bytes, start: int, stop: int) -> Answer:
    """As many bytes, of another place in the object."""
    return (data[1:] + data[:1])[start:stop], stop - start


def of_another_batch(data: bytes, start: int, stop: int) -> Answer:
    """As many bytes of a log, from where another batch begins."""
    first = 12 + int.from_bytes(data[8:12], "big")
    return (data[first:] + data[:first])[start:stop], stop - start


def ends_early(data: bytes, start: int, stop: int) -> Answer:
    return data[start : (start + stop) // 2], stop - start


def busy(data: bytes, start: int, stop: int) -> Answer:
    return None


class FakeS3:
    """The objects of a folder. fault_of: what is wrong with the next answer for an object of this name."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.requests = folder, 0
        self.fault_of: Callable[[str], Fault] = lambda _: as_wanted
        self.port = 0

    @property
    def uri(self) -> str:
        return f"s3://{BUCKET}/store?region=eu-north-1&scheme=http&endpoint_override=127.0.0.1:{self.port}"

    def listing(self, prefix: str) -> bytes:
        """All objects below a prefix (ListObjectsV2)."""
        rows = []
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            key = f"store/{path.relative_to(self.folder)}"
            if key.startswith(prefix):
                about = f"<Size>{path.stat().st_size}</Size><LastModified>2026-11-01T00:00:00.000Z</LastModified>"
                rows.append(f"<Contents><Key>{escape(key)}</Key>{about}</Contents>")
        head = f"<Name>{BUCKET}</Name><IsTruncated>false</IsTruncated><KeyCount>{len(rows)}</KeyCount>"
        return f"<?xml version='1.0'?><ListBucketResult>{head}{''.join(rows)}</ListBucketResult>".encode()

    def object(self, key: str) -> pathlib.Path | None:
        path = self.folder / key.removeprefix("store/")
        return path if key.startswith("store/") and path.is_file() else None


@contextmanager
def serving(bucket: FakeS3) -> Iterator[FakeS3]:
    """Serves it meanwhile, at a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            path = bucket.object(self._key())
            self._send(404 if path is None else 200, b"", None if path is None else path.stat().st_size)

        def do_GET(self) -> None:
            asked = urlsplit(self.path)
            if "list-type" in parse_qs(asked.query):
                self._send(200, bucket.listing(parse_qs(asked.query).get("prefix", [""])[0]))
                return
            path, wanted = bucket.object(self._key()), self.headers.get("Range", "")
            if path is None:
                self._send(404, b"")
                return
            bucket.requests += 1
            data = path.read_bytes()
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, stop = int(first or 0), min(int(last or len(data) - 1) + 1, len(data))
            answer = bucket.fault_of(path.name)(data, start, stop)
            if answer is None:
                self._send(503, b"<Error><Code>SlowDown</Code></Error>")
            else:
                self._send(206, *answer, **{"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"})

        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}").lstrip("/")

        def _send(self, status: int, body: bytes, size: int | None = None, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) if size is None else size))
            self.send_header("Last-Modified", "Sun, 01 Nov 2026 00:00:00 GMT")
            self.end_headers()
            self.wfile.write(body)
            if size is not None and size != len(body) and self.command == "GET":
                self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        bucket.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield bucket
        finally:
            server.shutdown()
            thread.join()
