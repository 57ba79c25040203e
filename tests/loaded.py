"""klogtool with its modules loaded, which forks for each run: a process of its own, without a second start of Python.

    python loaded.py NAME       serves on the abstract socket NAME until its stdin ends

A request is arguments, folder, environment, umask and what to call first; with it come the descriptors of stdin, stdout
and stderr. The answers are the process id and, once it has ended, the exit status as `subprocess` has it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import marshal
import os
import pickle
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LENGTH = struct.Struct("!I")
NUMBER = struct.Struct("!i")
# What Python and libc read once, at their start: a run where it differs needs a start of its own.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_")


# `klogtool` for a shell. It imports next to nothing: its own start is most of what such a run takes.
# A line of `#!` cannot have a blank in a path: sh reads the second line as a command, Python as a text.
IN_A_SHELL = """#!/bin/sh
"exec" "{python}" "-IS" "$0" "$@"
import _socket, marshal, os, sys
if {started} != sorted(pair for pair in os.environ.items() if pair[0].startswith({read_at_start})):
    os.execv({python!r}, [{python!r}, "-m", "klogtool", *sys.argv[1:]])
os.umask(mask := os.umask(0))
data = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ), mask, b""))
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address})
streams = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (0, 1, 2))
server.sendmsg([len(data).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(data)
server.recv(4, _socket.MSG_WAITALL)
status = int.from_bytes(server.recv(4, _socket.MSG_WAITALL), "big", signed=True)
os._exit(status if status >= 0 else 128 - status)
"""


@dataclass(frozen=True)
class Request:
    """A run of klogtool; `before` is called in its process first, and has to be picklable."""

    arguments: Sequence[str]
    folder: str
    environment: Mapping[str, str]
    umask: int
    before: Callable[[], None] | None = None

    def packed(self) -> bytes:
        """As it goes to the server."""
        before = pickle.dumps(self.before) if self.before else b""
        return marshal.dumps((list(self.arguments), self.folder, dict(self.environment), self.umask, before))

    @classmethod
    def unpacked(cls, data: bytes) -> Request:
        """What `packed` made, here or in a shell."""
        arguments, folder, environment, umask, before = marshal.loads(data)
        return cls(arguments, folder, environment, umask, pickle.loads(before) if before else None)


# ---------------------------------------------------------------- the side of the tests


def start(request: Request, streams: Sequence[int]) -> Run:
    """Start a run with these three descriptors as its standard streams."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(_serving(_started_with(os.environ)))
    data = request.packed()
    socket.send_fds(connection, [LENGTH.pack(len(data))], list(streams))
    connection.sendall(data)
    return Run(connection, _number(connection))


def fits(environment: Mapping[str, str]) -> bool:
    """Whether a run with this environment is what a start of Python with it would be."""
    return _started_with(environment) == _started_with(os.environ)


@functools.cache
def folder_for_shells() -> str:
    """A folder for PATH: its `klogtool` asks the server, unless it is to start otherwise than the server did."""
    started = _started_with(os.environ)
    folder = tempfile.mkdtemp(prefix="klogtool-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    words = {"python": sys.executable, "started": list(started), "read_at_start": READ_AT_START}
    path = os.path.join(folder, "klogtool")
    with open(path, "w", encoding="utf-8") as script:
        script.write(IN_A_SHELL.format(**words, address=_serving(started)))
    os.chmod(path, 0o755)
    return folder


class Run:
    """A klogtool that runs; `pid` may be given a signal."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection, self.pid = connection, pid

    def wait(self, timeout_s: float) -> int:
        """Its exit status, negative for a signal. Raises TimeoutError; then it has been killed."""
        with self.connection:
            if not select.select([self.connection], [], [], timeout_s)[0]:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"klogtool took more than {timeout_s} s")
            return _number(self.connection)


def _started_with(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pair for pair in environment.items() if pair[0].startswith(READ_AT_START)))


@functools.cache
def _serving(_: tuple[tuple[str, str], ...]) -> bytes:
    """The address of a server that has started with this environment; it ends with this process."""
    name = f"klogtool-tests-{os.getpid()}-{secrets.token_hex(8)}"
    command = [sys.executable, os.path.abspath(__file__), name]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin
    assert server.stdout
    assert server.stdout.read(1) == b"1"
    atexit.register(server.stdin.close)
    return b"\0" + name.encode()


def _number(connection: socket.socket) -> int:
    found: tuple[int] = NUMBER.unpack(_exactly(connection, NUMBER.size))
    return found[0]


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the other side has ended")
        data += more
    return data


# ---------------------------------------------------------------- the side of klogtool


def load() -> None:
    """Import what commands import as long as nobody asks for an extra."""
    from klogtool.cli.main import COMMANDS

    for module, _ in COMMANDS.values():
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def serve(name: str) -> Request:
    """Fork for each request. Returns in the process that is to run it; the server itself ends with its stdin."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(b"\0" + name.encode())
    listening.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    os.write(1, b"1")
    while True:
        if sys.stdin in select.select([listening, sys.stdin], [], [])[0]:
            os._exit(0)
        connection, _ = listening.accept()
        if not os.fork():
            listening.close()
            return answer(connection)
        connection.close()


def answer(connection: socket.socket) -> Request:
    """Returns in the process that is to run the request; the one around it tells how that ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, streams, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    request = Request.unpacked(_exactly(connection, LENGTH.unpack(header)[0]))
    pid = os.fork()
    if not pid:
        connection.close()
        become(request, streams)
        return request
    for stream in streams:
        os.close(stream)
    connection.sendall(NUMBER.pack(pid))
    _, status = os.waitpid(pid, 0)
    connection.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def become(request: Request, streams: Sequence[int]) -> None:
    """Make of this process what Python's start would have made of it."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding=sys.stderr.encoding, errors=sys.stderr.errors, closefd=False)  # noqa: SIM115
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["klogtool", *request.arguments]
    os.umask(request.umask)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    if request.before:
        request.before()


def main(name: str) -> None:
    """Serve; in each process of a run, be klogtool."""
    load()
    serve(name)
    from klogtool.__main__ import main as klogtool

    klogtool()


if __name__ == "__main__":
    main(sys.argv[1])
