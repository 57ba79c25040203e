"""klogtool's command line, asked many times in one child process: a crash is an answer, not the end of the test.

    with Klogtool() as klogtool:
        answer = klogtool.dump(files, ["--files", "t-0/00000000000000000000.log"])

Run as a module, this file is the child.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .kafka import Files, fill, read_tree, relative, scratch_folder

TESTS = Path(__file__).resolve().parent.parent
ANSWER_LIMIT_S = 60
MEMORY_LIMIT_BYTES = 4 << 30
TRACEBACK_STATUS = 70


@dataclass(frozen=True)
class Answer:
    """What klogtool printed, its exit status, and what no command may do: die, take too long, change a file."""

    stdout: bytes
    stderr: str
    status: int
    misdeed: str | None


class Klogtool:
    """A child process over a folder of its own. Starts at the first question.

    reader: "kernel" or "reference"; the child makes sure that it is this one that runs.
    """

    def __init__(self, reader: str = "kernel") -> None:
        self._reader = reader
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = scratch_folder("klogtool-ours-")

    def dump(self, files: Files, args: Sequence[str]) -> Answer:
        """`klogtool dump-log` with `args`, in a folder that holds exactly `files`."""
        fill(self.folder, files)
        answer = self.run(["dump-log", *args], self.folder)
        answer = replace(answer, stderr=relative(answer.stderr, self.folder))
        if answer.misdeed is None and read_tree(self.folder) != _without_parents(files):
            return replace(answer, misdeed="it changed the files it read")
        return answer

    def run(self, args: Sequence[str], folder: Path) -> Answer:
        """Any command, run in `folder`."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"args": list(args), "folder": str(folder)}).encode() + b"\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], ANSWER_LIMIT_S)[0]:
                raise TimeoutError
            head = self._process.stdout.readline()
            if not head:
                raise EOFError
            told = json.loads(head)
            out, err = self._process.stdout.read(told["stdout"]), self._process.stdout.read(told["stderr"])
        except (OSError, EOFError) as problem:
            return Answer(b"", "", TRACEBACK_STATUS, self._end(problem))
        text = err.decode(errors="replace")
        died = told["status"] >= 64 or "Traceback (most recent call last)" in text
        return Answer(out, text, told["status"], "it ended in a traceback" if died else None)

    def close(self) -> None:
        self._end(None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Klogtool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._reader],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*paths, str(TESTS)])},
        )

    def _end(self, problem: Exception | None) -> str:
        """Ends the child, and says how it ended."""
        process, self._process = self._process, None
        if process is None:
            return "it never started"
        if isinstance(problem, EOFError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if isinstance(problem, TimeoutError):
            return f"no answer in {ANSWER_LIMIT_S} s"
        return f"the process died of signal {-code}" if code < 0 else f"the process ended with status {code}"


def _without_parents(files: Files) -> dict[str, bytes]:
    """The files as read_tree tells them: a folder only where nothing is in it."""
    return {
        name: data
        for name, data in files.items()
        if not (name.endswith("/") and any(other != name and other.startswith(name) for other in files))
    }


def _serve(reader: str) -> None:
    """Answers requests until stdin ends. The answers leave by a descriptor of their own."""
    if reader == "reference":
        sys.modules["klogtool.kernels._native"] = None  # type: ignore[assignment]  # its import fails
    from running import run_here

    import klogtool.cli.main  # noqa: F401  a klogtool that cannot be imported ends the child here, and says why
    from klogtool import kernels

    if (not kernels.is_built()) != (reader == "reference"):
        sys.exit(f"the {reader} reader cannot run: is the extension built?")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            done = run_here(request["args"], Path(request["folder"]))
            status, out, err = done.status, done.out, done.err.encode()
        except BaseException:
            status, out, err = TRACEBACK_STATUS, b"", traceback.format_exc().encode()
        head = {"status": status, "stdout": len(out), "stderr": len(err)}
        answers.write(json.dumps(head).encode() + b"\n" + out + err)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
