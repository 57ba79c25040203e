"""Kafka's DumpLogSegments and batch builder, kept in one JVM: the side of the tests that is always right.

    with Kafka(prepare()) as kafka:
        answer = kafka.dump(files, ["--files", "t-0/00000000000000000000.log", "--deep-iteration"])

Jars come by Maven (pom.xml beside this file), once, into a cache folder; nothing else is downloaded. Kafka's tool
writes (it cuts an odd index, it creates a missing one), so every question gets files of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import xml.etree.ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
POM, SERVER = HERE / "pom.xml", HERE / "DumpServer.java"
ANSWER_LIMIT_S = 60
FETCH_LIMIT_S = 900
BRIEF_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # for what runs a few seconds: half of the work

# relative path -> bytes; a path that ends in "/" is a folder
Files = Mapping[str, bytes]


class Unavailable(Exception):
    """Kafka cannot be asked on this machine; the message says why."""


class Died(Exception):
    """The JVM went away, or gave no answer in time. The next question starts another."""


# ---------------------------------------------------------------- jars and classes


def prepare() -> Path:
    """The folder with `lib/` and `classes/`, made if it is not there. Raises Unavailable.

    Several processes may call this at once: one works, the others wait for it.
    """
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            raise Unavailable(f"needs Java and mvn: no {tool} on the PATH (a JDK, 17 or later)")
    cache = cache_folder()
    key = hashlib.sha256(POM.read_bytes() + SERVER.read_bytes()).hexdigest()[:16]
    home = cache / f"kafka-{kafka_version()}-{key}"
    if home.is_dir():
        return home
    try:
        cache.mkdir(parents=True, exist_ok=True)
        locked = (cache / ".lock").open("w")
    except OSError as error:
        raise Unavailable(
            f"needs Java and mvn: no place for the jars (KLOGTOOL_TEST_CACHE names one): {error}"
        ) from None
    with locked as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            _make(cache, home)
    return home


def cache_folder() -> Path:
    """Where tests keep what they fetched and made of Kafka: KLOGTOOL_TEST_CACHE, else a folder in the user's cache."""
    named = os.environ.get("KLOGTOOL_TEST_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "klogtool-tests"


def kafka_version() -> str:
    """The version that pom.xml names."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    version = xml.etree.ElementTree.parse(POM).findtext("m:properties/m:kafka.version", namespaces=space)
    if not version:
        raise ValueError(f"{POM} names no kafka.version")
    return version


def _make(cache: Path, home: Path) -> None:
    """Fetches and compiles beside `home`, and renames: a `home` that exists is complete."""
    if shutil.which("mvn") is None:
        raise Unavailable("needs Java and mvn: no mvn on the PATH, and the jars are not in the cache")
    fresh = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
    try:
        lib, classes = fresh / "lib", fresh / "classes"
        _run("mvn", "-q", "-B", "-f", POM, "dependency:copy-dependencies", f"-DoutputDirectory={lib}")
        _run("javac", "-nowarn", "-proc:none", "-d", classes, "-cp", f"{lib}/*", SERVER)
        fresh.rename(home)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _run(*command: str | Path) -> None:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=FETCH_LIMIT_S
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"needs Java and mvn: {command[0]} took more than {late.timeout:.0f} s") from None
    if done.returncode:
        said = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        raise Unavailable(f"needs Java and mvn: {command[0]} failed: {said[0] if said else 'without a word'}")


# ---------------------------------------------------------------- files


def fill(folder: Path, files: Files) -> None:
    """Makes `folder` hold exactly these files. The folder itself stays: a process may live in it."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    made = set()
    for name, data in files.items():
        path = folder / name
        parent = path if name.endswith("/") else path.parent
        if parent not in made:
            parent.mkdir(parents=True, exist_ok=True)
            made.add(parent)
        if not name.endswith("/"):
            path.write_bytes(data)


def read_tree(folder: Path) -> dict[str, bytes]:
    """The files under a folder, as `fill` takes them (folders only where they are empty)."""
    found: dict[str, bytes] = {}
    for here, folders, names in os.walk(folder):
        folders.sort()
        inside = os.path.relpath(here, folder)
        prefix = "" if inside == "." else inside + "/"
        if prefix and not names and not folders:
            found[prefix] = b""
        for name in sorted(names):
            found[prefix + name] = Path(here, name).read_bytes()
    return found


def relative(text: str, folder: Path) -> str:
    """The text, paths in the folder told from there."""
    return text.replace(f"{folder}/", "")


def scratch_folder(prefix: str) -> Path:
    """A new temporary folder, in memory where the system has such a place."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if os.access(memory, os.W_OK) else None)).resolve()


# ---------------------------------------------------------------- questions


@dataclass(frozen=True)
class Answer:
    """What the tool printed, and the exception that ended it (simple class name, message), if one did.

    In stderr and message the folder of the question is cut from the paths; stdout is untouched.
    """

    stdout: bytes
    stderr: str
    exit: int
    thrown: tuple[str, str] | None


class Kafka:
    """One JVM over a folder of its own. Starts at the first question; not for several threads."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self.folder = scratch_folder("klogtool-kafka-")

    def dump(self, files: Files, args: Sequence[str]) -> Answer:
        """DumpLogSegments with `args`, in a folder that holds exactly `files`. Raises Died."""
        fill(self.folder, files)
        told = self._ask({"args": list(args)})
        thrown = told.get("thrown")
        return Answer(
            stdout=told["stdout"].encode(),
            stderr=relative(told["stderr"], self.folder),
            exit=told["exit"],
            thrown=(thrown["class"].rpartition(".")[2], relative(thrown["message"] or "", self.folder))
            if thrown
            else None,
        )

    def build(self, batch: Mapping[str, Any]) -> bytes:
        """A batch (magic 2) or message set (magic 0 and 1) by Kafka's MemoryRecordsBuilder.

        Fields: magic, codec, base_offset, last_offset, log_append_time, producer_id, producer_epoch, base_sequence,
        transactional, control, partition_leader_epoch, delete_horizon_ms, and records: offset, timestamp, key, value,
        headers as pairs; keys and values are bytes or None. Raises ValueError where Kafka refuses.
        """
        told = self._ask({"batch": _as_hex(batch)})
        if "thrown" in told:
            raise ValueError(f"{told['thrown']['class']}: {told['thrown']['message']}")
        return bytes.fromhex(told["hex"])

    def close(self) -> None:
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Kafka:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._line())
        except (OSError, Died) as problem:
            self._stop()
            raise Died(f"{problem} ({request})") from problem
        return answer

    def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, until, pieces = self._process.stdout.fileno(), time.monotonic() + ANSWER_LIMIT_S, [self._pending]
        while b"\n" not in pieces[-1]:
            if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
                raise Died(f"no answer from Kafka in {ANSWER_LIMIT_S} s")
            piece = os.read(pipe, 1 << 20)
            if not piece:
                raise Died("the JVM ended")
            pieces.append(piece)
        line, _, self._pending = b"".join(pieces).partition(b"\n")
        return line

    def _start(self) -> None:
        self._pending = b""
        command = ["java", "-Xmx512m", *BRIEF_JVM, "-Dfile.encoding=UTF-8"]
        command += ["-cp", f"{self._home}/classes:{self._home}/lib/*", "DumpServer"]
        self._process = subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C.UTF-8"},  # file names in requests are UTF-8
        )

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None


def _as_hex(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {name: _as_hex(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_hex(item) for item in value]
    return value
