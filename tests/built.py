"""Log dirs out of specs of `klogtool build`, for tests: written at once, without syncing."""

from __future__ import annotations

import pathlib

from klogtool.building import Spec
from klogtool.building.log_dir import build_log_dir


def write_log_dir(spec: Spec, folder: pathlib.Path) -> pathlib.Path:
    """Write the log dir of a spec into a folder, which may exist; returns it."""
    draft = build_log_dir(spec, str(folder)).draft
    for name in draft.folders:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in draft.names():
        (folder / name).write_bytes(draft.read(name))
    return folder
