"""A log dir of which all is hostile: its name, names in it, what its files say; and what may be printed of it."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import unicodedata

from running import FIXTURES, Done, run_here

EVIL = "\x1b[2J\x9b\u202e\u2066\u200b\u2028\ufeff\x7f\r\t\nFAKE: nothing is lost"
NO_TEXT = EVIL + "\udcff"  # as a name of a file, not UTF-8
RAW = os.fsencode(NO_TEXT)
LOG = "00000000000000000000.log"


def hostile_log_dir(folder: pathlib.Path) -> pathlib.Path:
    """In a folder, sound partitions and damaged ones, amid hostile names and lines."""
    root = folder / f"logs{NO_TEXT}"
    shutil.copytree(FIXTURES / "transactions/logdir", root)
    shutil.copytree(root / "t-0", root / f"t{NO_TEXT}-0")
    shutil.copytree(root / "t-0", root / f"t{EVIL}-1")
    (root / "cleaner-offset-checkpoint").write_bytes(b"0\n1\n" + RAW.replace(b"\n", b"") + b" x y\n")
    (root / "server.properties").write_bytes(b"retention.ms=" + RAW)
    for partition in (root / f"t{NO_TEXT}-0", root / "t-0"):
        (partition / f"0{NO_TEXT}.log").write_bytes(RAW)
        (partition / NO_TEXT).write_bytes(RAW)
    wounded = root / f"t{EVIL}-1"
    (wounded / "leader-epoch-checkpoint").write_bytes(b"0\n1\n" + RAW)
    (wounded / "partition.metadata").write_bytes(b"version: 0\ntopic_id: " + RAW)
    log = wounded / LOG
    log.write_bytes(log.read_bytes()[:-9] + RAW)
    return root


def hostile_unfit(folder: pathlib.Path) -> list[pathlib.Path]:
    """In a folder, log dirs that a broker refuses for one hostile thing each."""
    dirs = []
    for name in ("meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        dirs.append(folder / f"unfit{NO_TEXT}{name}")
        shutil.copytree(FIXTURES / "transactions/logdir", dirs[-1])
        (dirs[-1] / name).write_bytes(b"0\n1\ncluster.id=" + RAW)
    dirs.append(folder / f"foreign{NO_TEXT}")
    shutil.copytree(FIXTURES / "transactions/logdir", dirs[-1])
    (dirs[-1] / NO_TEXT).mkdir()
    return dirs


def assert_tame_text(text: str) -> None:
    for line in text.split("\n"):
        bad = {hex(ord(char)) for char in line if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert not bad, (bad, line)
        assert not line.startswith("FAKE"), line


def assert_tame(done: Done, *, but_stdout: bool = False) -> None:
    for text in (done.err, "" if but_stdout else done.out.decode()):
        assert_tame_text(text)
    assert "Traceback" not in done.err
    assert done.status in (0, 1, 2, 3, 4)


def assert_json_is_text(out: bytes) -> None:
    """Each line is an object, and no string in it has a lone surrogate."""
    for line in out.decode().split("\n")[:-1]:
        json.dumps(json.loads(line), ensure_ascii=False).encode()


def run(*args: str | os.PathLike[str], folder: pathlib.Path) -> Done:
    return run_here([os.fspath(arg) for arg in args], folder)


def paths_in(log_dir: pathlib.Path) -> list[pathlib.Path]:
    partitions = [log_dir / f"t{NO_TEXT}-0", log_dir / f"t{EVIL}-1", log_dir / "t-0"]
    return [log_dir, *partitions, partitions[0] / LOG, partitions[0] / NO_TEXT, log_dir / f"missing{NO_TEXT}"]
