"""klogtool run in this process as a user would run it: arguments in, exit status and bytes out."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import BinaryIO

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

    Both the file descriptors and Python's streams: some text goes out by the one, some by the other.
    """
    from klogtool.cli.main import main

    with caught_streams() as (out, err), contextlib.chdir(folder), arguments(["klogtool", *args]):
        try:
            status = main() or 0
        except SystemExit as stop:
            status = exit_status(stop)
        sys.stdout.flush(), sys.stderr.flush()
        out.seek(0), err.seek(0)
        return Done(status, out.read(), err.read().decode(errors="replace"))


def in_shell(command: str, folder: pathlib.Path) -> tuple[str, int]:
    """stdout and stderr, and the exit status, of a shell command with this interpreter's klogtool, in 80 columns."""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1"},
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


def run_apart(
    *args: str | os.PathLike[str], before: Callable[[], None] | None = None, timeout_s: float = 60, **options: int
) -> Done:
    """Run klogtool in a process of its own; `before` runs in it first. A run that takes longer fails the test."""
    command = [*KLOGTOOL, *map(os.fspath, args)]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    done = subprocess.run(command, preexec_fn=before, timeout=timeout_s, cwd=ROOT, check=False, **streams)
    return Done(done.returncode, done.stdout or b"", (done.stderr or b"").decode(errors="replace"))


def without_power_over_files() -> None:
    """From here on root, too, is bound by the permissions of files. For `before` of run_apart."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


def with_memory(limit_bytes: int) -> Callable[[], None]:
    """For `before` of run_apart: no more address space than this."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


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
