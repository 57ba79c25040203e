"""klogtool run in this process as a user would run it: arguments in, exit status and bytes out."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import BinaryIO
from unittest import mock

import loaded

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"


@dataclass(frozen=True)
class Done:
    """What a run of klogtool left: exit status, the bytes of stdout, the text of stderr."""

    status: int
    out: bytes
    err: str

    @property
    def told(self) -> str:
        """stderr without the line that says that the slow reader runs, where it does."""
        return "".join(line for line in self.err.splitlines(keepends=True) if "slow" not in line)


def exit_status(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def run_here(args: list[str], folder: pathlib.Path) -> Done:
    """Run klogtool's entry point in this process, in `folder`, with its standard streams caught.

    Both the file descriptors and Python's streams: some text goes out by the one, some by the other. Gentle commands
    leave this process its processor: not everybody could take it again for the next test.
    """
    from klogtool.cli import gentle_reading
    from klogtool.cli.main import main

    as_it_is = mock.patch.object(gentle_reading, "yield_processor")
    with as_it_is, caught_streams() as (out, err), contextlib.chdir(folder), arguments(["klogtool", *args]):
        try:
            status = main() or 0
        except SystemExit as stop:
            status = exit_status(stop)
        sys.stdout.flush(), sys.stderr.flush()
        out.seek(0), err.seek(0)
        return Done(status, out.read(), err.read().decode(errors="replace"))


def path_of_shells() -> str:
    """PATH with this interpreter's klogtool in front, forked from one that waits."""
    return os.pathsep.join([loaded.folder_for_shells(), os.path.dirname(sys.executable), os.environ["PATH"]])


def fixture_files() -> list[pathlib.Path]:
    """All files of the log dirs and partition dirs in fixtures/: no golden file, no object of a remote store."""
    stores = [FIXTURES / "remote" / name for name in ("sealed", "store", "zstd")]
    return [
        path
        for path in sorted(FIXTURES.glob("*/*/**/*"))
        if path.is_file() and "golden" not in path.parts and not any(map(path.is_relative_to, stores))
    ]


def in_shell(command: str, folder: pathlib.Path) -> tuple[str, int]:
    """stdout and stderr, and the exit status, of a shell command with this interpreter's klogtool, in 80 columns."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path_of_shells(), "COLUMNS": "80", "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    return done.stdout.decode(), done.returncode


def tool(name: str) -> ModuleType:
    """A program of tools/, such as `site/screens`, as a module."""
    spec = importlib.util.spec_from_file_location(f"tool_{name.replace('/', '_')}", ROOT / f"tools/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def caught_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Files that take what is written to stdout and stderr meanwhile."""
    streams, kept = (sys.stdout, sys.stderr), (os.dup(1), os.dup(2))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
            sys.stdout, sys.stderr = (os.fdopen(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))
            yield out, err
        finally:
            sys.stdout, sys.stderr = streams
            os.dup2(kept[0], 1), os.dup2(kept[1], 2)
            os.close(kept[0]), os.close(kept[1])


@contextlib.contextmanager
def arguments(words: list[str]) -> Iterator[None]:
    """Meanwhile the command line of this process is this one."""
    kept, sys.argv = sys.argv, words
    try:
        yield
    finally:
        sys.argv = kept


KLOGTOOL = [sys.executable, "-m", "klogtool"]
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
CAPABILITIES_OF_64_BITS = 0x20080522


def run_apart(
    *args: str | os.PathLike[str],
    before: Callable[[], None] | None = None,
    timeout_s: float = 60,
    typed: bytes | None = None,
    environment: Mapping[str, str] = os.environ,
    **streams: int,
) -> Done:
    """Run klogtool in a process of its own; `before` runs in it first, `typed` comes through a pipe. A run that takes
    longer fails the test. It is forked from a klogtool that waits (loaded.py), where that comes to the same."""
    words = list(map(os.fspath, args))
    with piped(typed) as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        fds = {"stdin": stdin, "stdout": out.fileno(), "stderr": err.fileno(), **streams}
        if loaded.fits(environment):
            request = loaded.Request(words, str(ROOT), environment, umask(), before)
            status = loaded.start(request, list(fds.values())).wait(timeout_s)
        else:
            command = [*KLOGTOOL, *words]
            done = subprocess.run(command, preexec_fn=before, timeout=timeout_s, cwd=ROOT, env=environment, **fds)
            status = done.returncode
        out.seek(0), err.seek(0)
        return Done(status, out.read(), err.read().decode(errors="replace"))


def umask() -> int:
    """That of this process."""
    os.umask(mask := os.umask(0))
    return mask


@contextlib.contextmanager
def piped(data: bytes | None) -> Iterator[int]:
    """A descriptor that gives these bytes, and then ends; nothing at all for None."""
    if data is None:
        with open(os.devnull, "rb") as nothing:
            yield nothing.fileno()
        return
    reading, writing = os.pipe()
    feeding = threading.Thread(target=_feed, args=(writing, data))
    feeding.start()
    try:
        yield reading
    finally:
        os.close(reading)
        feeding.join()


def _feed(writing: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(writing, "wb") as pipe:
        pipe.write(data)


def without_power_over_files() -> None:
    """From here on root, too, is bound by the permissions of files. For `before` of run_apart."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):  # what a program that is started later may have
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")
        of_this_process, sets = (ctypes.c_uint32 * 2)(CAPABILITIES_OF_64_BITS, 0), (ctypes.c_uint32 * 6)()
        if libc.capget(of_this_process, sets):
            raise OSError(ctypes.get_errno(), "capget")
        for number in range(3):  # effective, permitted, inheritable: of the first 32
            sets[number] &= ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH)
        if libc.capset(of_this_process, sets):
            raise OSError(ctypes.get_errno(), "capset")


def with_memory(limit_bytes: int) -> Callable[[], None]:
    """For `before` of run_apart: no more address space than this."""
    return functools.partial(_limit_memory, limit_bytes)


def _limit_memory(limit_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


Tree = dict[str, tuple[object, ...]]


def tree_of(root: pathlib.Path, *, with_bytes: bool = True) -> Tree:
    """Kind, mode, size, times and bytes of all that lies under a folder, itself included.

    The change time is among them, and cannot be set back: what is equal without the bytes was not written to either.
    """
    found: Tree = {}
    for path in [root, *sorted(root.rglob("*"))]:
        about = path.lstat()
        data = path.read_bytes() if with_bytes and path.is_file() else None
        size = about.st_size if path.is_file() else None
        found[str(path.relative_to(root))] = (about.st_mode, size, about.st_mtime_ns, about.st_ctime_ns, data)
    return found


IN_A_CHILD = """
import os, resource, sys
pid = os.posix_spawn(sys.executable, [sys.executable, "-m", "klogtool", *sys.argv[1:]], os.environ)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=sys.stderr)
sys.exit(status)
"""


def peak_bytes(words: list[str], output: int = subprocess.DEVNULL) -> int:
    """The most memory of klogtool, in a process of its own, started by a small one: a count begins with that of who
    starts it. output: where its stdout goes."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", IN_A_CHILD, *words], stdout=output, stderr=subprocess.PIPE, cwd=ROOT, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return int(done.stderr.split()[-1])
