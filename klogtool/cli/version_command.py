"""klogtool version."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator

import click

from klogtool import kernels
from klogtool.cli import options
from klogtool.cli.commands import command as cli_command
from klogtool.cli.show import Screen, Show
from klogtool.cli.version import KAFKA_VERSION, VERSION, crc_ways, version_text
from klogtool.doctor.host import HostFiles
from klogtool.escape import joined
from klogtool.log.cores import usable_cores


@cli_command("version")
@options.screen()
def command(screen: Screen) -> None:
    """Show the version, the Kafka release that klogtool is compared with, and which kernels run.

    With -v, also Python, libraries and the machine: add it to a bug report. No name of a machine or a user is in it,
    and no path.

    \b
    Examples:
      klogtool version
      klogtool version -v

    Exit status: 0 done.
    """
    show, ways = Show("version", screen), list(crc_ways())
    row = {"type": "version", "version": VERSION, "kafka": KAFKA_VERSION, "kernels": bool(ways), "crc32c": ways}
    if screen.verbose:
        show.row({**row, "environment": environment()})
        if not show.json:
            click.echo(environment_text())
    else:
        show.row(row)
        show.line(version_text())


_REQUIREMENT = re.compile(r"^([\w.-]+).*?(?:extra == [\"']([\w-]+)[\"'])?$")


def environment_text() -> str:
    """Return the version, and a line for each thing that klogtool depends on."""
    return joined([version_text(), *(f"{name + ':':<13}{value}" for name, value in _walk())])


def environment() -> dict[str, str]:
    """Return what `environment_text` says, by name."""
    return dict(_walk())


def _walk() -> Iterator[tuple[str, str]]:
    ways = crc_ways()
    yield "kernels", _kernels(bool(ways))
    can_use = ", ".join(ways) or "nothing: kernels are missing"
    yield "CPU", f"{platform.machine()}, {usable_cores()} cores; CRC-32C can use {can_use}"
    free = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without the GIL"
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}{free}"
    yield "platform", f"{platform.system()} {platform.release()}"
    yield "libc", " ".join(filter(None, platform.libc_ver())) or "not known"
    yield "encoding", f"{sys.getfilesystemencoding()} for names, {getattr(sys.stdout, 'encoding', None)} for stdout"
    yield "here", f"a file system of the type {_file_system()}"
    yield from _packages()


def _kernels(is_built: bool) -> str:
    if is_built:
        return "built" + (", several threads" if kernels.native.RUNS_IN_THREADS else ", one thread")
    try:
        importlib.import_module("klogtool.kernels._native")
    except ImportError as error:
        why = re.sub(r"\S*/", "", str(error))  # paths name users
        return f"MISSING: the reference reader runs, about a hundred times slower ({why})"
    return "MISSING: the reference reader runs, about a hundred times slower"


def _file_system() -> str:
    try:
        mount = HostFiles("/").mount_of(os.path.realpath(os.getcwd()))
    except OSError:  # the folder is gone
        mount = None
    return mount.kind if mount else "that is not known"


def _packages() -> Iterator[tuple[str, str]]:
    """Yield the packages that klogtool needs, and those of each extra."""
    try:
        needed = importlib.metadata.requires("klogtool") or []
    except importlib.metadata.PackageNotFoundError:
        yield "packages", "not known: klogtool is not installed as a package"
        return
    groups: dict[str, list[str]] = {"": []}
    for requirement in needed:
        if match := _REQUIREMENT.match(requirement):
            groups.setdefault(match[2] or "", []).append(match[1])
    for extra, names in groups.items():
        yield (f"[{extra}]" if extra else "packages"), ", ".join(_installed(name, extra) for name in names)


def _installed(name: str, extra: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} not installed" if extra else f"{name} MISSING"
