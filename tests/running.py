"""klogtool run in this process as a user would run it: arguments in, exit status and bytes out."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"


@dataclass(frozen=True)
class Done:
    """What a run of klogtool left: exit status, the bytes of stdout, the text of stderr."""

    status: int
    out: bytes
    err: str


def exit_status(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def run_here(args: list[str], folder: pathlib.Path) -> Done:
    """Run klogtool's entry point in this process, in `folder`, with file descriptors 1 and 2 caught.

    The descriptors, not sys.stdout: the kernels' text goes out by os.write.
    """
    from klogtool.cli.main import main

    here, argv = pathlib.Path.cwd(), sys.argv
    sys.stdout.flush(), sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        os.dup2(out.fileno(), 1), os.dup2(err.fileno(), 2)
        try:
            os.chdir(folder)
            sys.argv = ["klogtool", *args]
            status = main() or 0
        except SystemExit as stop:
            status = exit_status(stop)
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os.dup2(kept[0], 1), os.dup2(kept[1], 2)
            os.close(kept[0]), os.close(kept[1])
            os.chdir(here)
            sys.argv = argv
        out.seek(0), err.seek(0)
        return Done(status, out.read(), err.read().decode(errors="replace"))
