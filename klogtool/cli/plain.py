"""Command lines that need no parser: paths, and of the options only those that most runs have. All else, and what is
wrong, is click's, which takes longer to import than a small verification takes.

tests/cli/test_start.py holds this to click's own reading.
"""

from __future__ import annotations

from klogtool import kernels
from klogtool.cli.status import DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from klogtool.repair.circumstances import Circumstances

FLAGS = {
    "verify": ("deep", "notes", "recover", "quiet", "no-progress"),
    "rebuild-index": ("quiet",),
}
FORMATS = ("text", "json")
# What click gives for options that a plain command line has not.
OF_WRITING: dict[str, Any] = {"jobs": None, "apply": False, "output": None, "plan_out": None, "journal": None}
DEFAULTS: dict[str, dict[str, Any]] = {
    "verify": OF_WRITING
    | dict.fromkeys(("deep", "notes", "recover", "mark_clean", "quiet", "no_progress"), False)
    | {"fail_on": "error", "baseline": None, "max_duration": None, "subset": (1, 1)},
    "rebuild-index": OF_WRITING | {"quiet": False, "segments": [], "only": []},
}


def plain_work(args: Sequence[str]) -> Callable[[], int] | None:
    """What a command line asks for, if it is plain; None if it is click's."""
    if args == ["--version"] and kernels.native is not None:
        return _show_version
    command = args[0] if args else ""
    given = plain_words(command, args[1:]) if command in FLAGS else None
    if given is None:
        return None
    paths, form = given.pop("paths"), given.pop("form")
    if command == "verify":
        from klogtool.cli.verifying import run_verify

        return lambda: run_verify(paths, form, plain_circumstances(), given)
    if len(paths) != 1:
        return None
    from klogtool.cli.rebuilding import run_rebuild_index

    return lambda: run_rebuild_index(paths[0], plain_circumstances(), {**given, "form": form})


def _show_version() -> int:
    from klogtool.cli.version import version_text

    print(version_text())
    return DONE


def plain_words(command: str, words: Sequence[str]) -> dict[str, Any] | None:
    """The parameters of a command, by click's names, and its `paths`; None where these words are not plain."""
    given, left = {**DEFAULTS[command], "form": "text"}, list(reversed(words))
    paths: tuple[str, ...] = ()
    while left:
        word = left.pop()
        name = "quiet" if word == "-q" else word.removeprefix("--")
        if not word.startswith("-"):
            paths += (word,)
        elif name in FLAGS[command]:
            given[name.replace("-", "_")] = True
        elif word == "--jobs" and left and left[-1].isascii() and left[-1].isdigit() and int(left[-1]):
            given["jobs"] = int(left.pop())
        elif word == "--format" and left and left[-1] in FORMATS:
            given["form"] = left.pop()
        else:
            return None
    needless = given.get("recover") and any(given[name] for name in ("deep", "notes"))  # click has words for that
    return {**given, "paths": paths} if paths and not needless else None


def plain_circumstances() -> Circumstances:
    """Those of a command line that says nothing of them."""
    import time

    from klogtool.repair.circumstances import Circumstances

    return Circumstances(time.time_ns() // 1_000_000)
