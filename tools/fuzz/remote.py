#!/usr/bin/env python3
"""Hostile stores through `klogtool remote` and the commands that read a store: `remote.py [--seconds N | --inputs N]`.

Each input is a store of the fixtures with a few objects that are damaged, cut, exchanged, missing, called something
else, or, manifests and chunk indexes, lie; and what a broker knows of it, or not. Found is: a traceback, a status that
does not fit, more memory or time than such a store can need, something written into the store, a partition dir that is
half done or damaged.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from damaged import EXTREMES, FIXTURES, damaged  # first: it makes the modules of tests/ known
from sums import add, add_option

from klogtool.format.codecs import compress

from remote_stores import pem  # isort: skip
from running import Done, run_here  # isort: skip

REMOTE = FIXTURES / "remote"
MANIFEST, LOG = ".rsm-manifest", ".log"
STATUSES = (0, 1, 3, 4)
NO_SUCH = re.compile(
    "it has no partition|no objects of topic id|several topics have this name|no segment has a record|not a topic id"
)
ABSENT, DIED, LIMIT_S = 2, 70, 20
LIMIT_BYTES = 512 << 20
IDS = ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "----------------------", "______________________")
STARTS = (0, 6, 30, 41, 60, 10**19, 2**63 - 1, 2**63, 10**20 - 1)
TOPICS = ("pay", "orders", ".", "..", "a\n\x1b[31mb", "-", "t" * 200, "\udcff", "{}", "pay-0", "__remote_log_metadata")
LONG = "@"  # stands for a number of more digits than Python reads
NUMBERS = (0, 1, 5, 46, 1000, 2**31, 2**62, 2**64, 10**25, LONG, -(2**40), 1.5, *EXTREMES)
ODD = (None, True, "", "x", "fixed", "variable", "1", "\udcff", "a\nb", "..", [], {}, [[]], {"": 0}, *IDS, *NUMBERS)
AT = "2026-11-26"


@dataclass
class Input:
    """A store on the disk, the log dirs and the key that belong to it, and what was done to it."""

    store: pathlib.Path
    logs: pathlib.Path | None
    words: list[str]
    partitions: tuple[str, ...]
    told: list[str] = field(default_factory=list)

    def objects(self, suffix: str = "") -> list[pathlib.Path]:
        return sorted(path for path in self.store.rglob(f"*{suffix}") if path.is_file())


def lay_out(rng: random.Random, folder: pathlib.Path) -> Input:
    """One of the stores. The key of the encrypted one is there, or not."""
    name = rng.choice(("store", "store", "zstd", "zstd", "sealed"))
    source = REMOTE / name if name == "store" else REMOTE / name / "store"
    shutil.copytree(source, folder / "store")
    (folder / "key").write_bytes(pem())
    words = ["--key", f"key1={folder / 'key'}"] if name == "sealed" and rng.random() < 0.8 else []
    logs = None
    if name == "store":
        logs = folder / "logs"
        shutil.copytree(REMOTE / "logs", logs)
    return Input(folder / "store", logs, words, ("pay-0", "orders-0", "orders-1"))


# ---------------------------------------------------------------- wounds


def damage(rng: random.Random, tried: Input) -> None:
    path = rng.choice(tried.objects())
    path.write_bytes(damaged(rng, path.read_bytes(), healed=path.name.endswith(LOG) and rng.random() < 0.5))


def exchange(rng: random.Random, tried: Input) -> None:
    """Two objects of a kind have the bytes of each other."""
    one = rng.choice(tried.objects())
    other = rng.choice(tried.objects(one.suffix))
    mine, its = one.read_bytes(), other.read_bytes()
    one.write_bytes(its), other.write_bytes(mine)


def empty_or_gone(rng: random.Random, tried: Input) -> None:
    path = rng.choice(tried.objects())
    path.unlink() if rng.random() < 0.5 else path.write_bytes(b"")


def call_otherwise(rng: random.Random, tried: Input) -> None:
    """Objects of one segment, or only one of them, get another id, offset, topic or partition."""
    path = rng.choice(tried.objects())
    stem, whole = path.name.partition(".")[0], rng.random() < 0.7
    start, _, segment = stem.partition("-")
    folder, is_aiven = path.parent, path.parent.name.isdecimal()
    match rng.randrange(4):
        case 0:
            start = f"{rng.choice(STARTS):020d}"
        case 1:
            segment = rng.choice(IDS)
        case 2 if is_aiven:
            folder = folder.parent.parent / f"{topic_of(rng)}-{rng.choice(IDS)}" / folder.name
        case 2:
            folder = folder.parent / f"{topic_of(rng)}-0-{rng.choice(IDS)}"
        case _ if is_aiven:
            folder = folder.parent / rng.choice(("1", "2147483647", "9999999999", "00"))
        case _:
            folder = folder.parent / f"pay-{rng.choice(('1', '2147483647', '9999999999', '00'))}-{IDS[0]}"
    folder.mkdir(parents=True, exist_ok=True)
    for one in sorted(path.parent.glob(f"{stem}.*")) if whole else [path]:
        if (folder / f"{start}-{segment}{one.suffix}") == one:
            continue
        (shutil.copy if rng.random() < 0.3 else shutil.move)(one, folder / f"{start}-{segment}{one.suffix}")


def topic_of(rng: random.Random) -> str:
    """A name that a folder can have beside an id."""
    return rng.choice(TOPICS)


def odd_object(rng: random.Random, tried: Input) -> None:
    """Something that is no file has the name of an object."""
    path = rng.choice(tried.objects())
    path.unlink()
    match rng.randrange(5):
        case 0:
            path.mkdir()
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to("nowhere")
        case 3:
            path.symlink_to("/dev/zero")
        case _:
            path.symlink_to(path.name)


def lie(rng: random.Random, tried: Input) -> None:
    """A manifest whose values do not fit, or fit and are absurd."""
    paths = tried.objects(MANIFEST)
    if not paths:
        return damage(rng, tried)
    path = rng.choice(paths)
    try:
        value = json.loads(path.read_bytes())
        places = places_in(value)
    except (ValueError, RecursionError):
        return None  # damaged before
    for _ in range(rng.choice((1, 1, 2, 3))):
        holder, name = rng.choice(places)
        old = holder[name]  # type: ignore[index]
        holder[name] = rng.choice(NUMBERS) if isinstance(old, int) and rng.random() < 0.7 else rng.choice(ODD)  # type: ignore[index]
    text = json.dumps(value).replace(f'"{LONG}"', "9" * 5_000)
    path.write_text(text if rng.random() < 0.9 else text[:-1] + ',"x":' + "[" * rng.choice((1, 5_000, 200_000)))
    return None


def places_in(value: object) -> list[tuple[dict[str, object] | list[object], object]]:
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [(value, name) for name, _ in pairs] + [one for _, inner in pairs for one in places_in(inner)]  # type: ignore[misc]


def lie_of_chunks(rng: random.Random, tried: Input) -> None:
    """A chunk index of another number, width or sizes than the chunks have; a bomb; one without end."""
    paths = tried.objects(MANIFEST)
    if not paths:
        return damage(rng, tried)
    path = rng.choice(paths)
    try:
        value = json.loads(path.read_bytes())
        index = value["chunkIndex"]
        count = rng.choice((0, 1, 2, 3, 7, 1000, 2**20, 2**31 - 1, -1))
        listed = min(max(count, 0), 1 << 20)
        data = (count % 2**32).to_bytes(4, "big")
        width = rng.choice((0, 1, 2, 4, 5, 255))
        if count > 1:
            data += (rng.choice((*EXTREMES, 1, 300)) % 2**32).to_bytes(4, "big") + bytes([width])
            data += rng.choice((bytes, rng.randbytes))(min(listed * width, 1 << 22))
        data += (rng.choice((*EXTREMES, 300)) % 2**32).to_bytes(4, "big")
        data = damaged(rng, data, healed=False) if rng.random() < 0.3 else data
        data = data + bytes(1 << 26) if rng.random() < 0.1 else data
        packed = compress("zstd", data, magic=2)
        index["transformedChunks"] = base64.b64encode(packed * rng.choice((1, 1, 1, 2))).decode()
        index["type"] = "variable" if rng.random() < 0.9 else "fixed"
        if rng.random() < 0.7:
            chunk = rng.choice((1, 2, 100, 1024, 2**30, 2**31 - 1))
            index["originalChunkSize"], index["originalFileSize"] = chunk, min(chunk * listed, 2**31 - 1)
        if rng.random() < 0.5:
            value["compression"] = not value["compression"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None  # damaged before
    path.write_text(json.dumps(value))
    return None


def damage_logs(rng: random.Random, tried: Input) -> None:
    """What a broker knows is damaged, too."""
    if tried.logs is None:
        return damage(rng, tried)
    files = sorted(path for path in tried.logs.rglob("*") if path.is_file())
    metadata = [path for path in files if "__remote" in str(path) and path.name.endswith(LOG)]
    path = rng.choice(metadata if rng.random() < 0.6 else files)
    path.write_bytes(damaged(rng, path.read_bytes(), healed=path.name.endswith(LOG) and rng.random() < 0.8))
    return None


WOUNDS: tuple[Callable[[random.Random, Input], None], ...] = (
    damage,
    exchange,
    empty_or_gone,
    call_otherwise,
    odd_object,
    lie,
    lie,
    lie_of_chunks,
    damage_logs,
)


# ---------------------------------------------------------------- questions


def questions(rng: random.Random, tried: Input, output: pathlib.Path) -> list[str]:
    """One command line."""
    store, beside, form = str(tried.store), list(tried.words), rng.choice((["--json"], []))
    if tried.logs is not None and rng.random() < 0.7:
        beside += ["--metadata", str(tried.logs)] if rng.random() < 0.8 else []
        beside += ["--local", str(tried.logs)] if rng.random() < 0.8 else []
    name = rng.choice(tried.partitions)
    match rng.randrange(9):
        case 0:
            return ["remote", "ls", store, *beside, *(form or ["-v"])]
        case 1:
            return ["remote", "ls", store, *beside, "--format", "arrow", "--output", f"{output}.arrow"]
        case 2 | 3:
            own = rng.choice(([], ["--deep"], ["--notes"]))
            return ["remote", "verify", store, *beside, "--now", AT, *own, *form]
        case 4 | 5:
            own = rng.choice(([], ["--from", "30"], ["--from", "2023-11-14T22:13:20Z"]))
            return ["remote", "fetch", store, name, *beside, *own, "--output", str(output), *form]
        case 6:
            own = ["--adopt", rng.choice(ids_in(tried.store))] if rng.random() < 0.5 else []
            return ["remote", "metadata", store, *beside, *own, "--output", str(output), *form]
    folder = str(rng.choice([path.parent for path in tried.objects()] or [tried.store]))
    match rng.randrange(4):
        case 0:
            logs = tried.objects(LOG)
            path = str(rng.choice(logs)) if logs and rng.random() < 0.6 else folder
            return [
                "dump-log",
                path,
                *tried.words[:0],
                *(["--store-key", tried.words[1]] if tried.words else []),
                *form,
            ]
        case 1:
            asked = rng.choice((["--offset", "35"], ["--timestamp", "2026-01-01"], ["--timestamp", "latest"]))
            return ["lookup", folder, *asked, *tried.words, *form]
        case 2:
            return ["read", folder, "--offset", rng.choice(("0", "35", "100")), *tried.words, *form]
        case _:
            copy = REMOTE / "logs" / name
            key = [] if not tried.words else ["--key", tried.words[1]]
            return ["salvage", str(copy), "--replica", folder, *key, "--output", str(output), *form]


def ids_in(store: pathlib.Path) -> list[str]:
    """Ids of topics that have a folder, and one that has not."""
    names = [path.name for path in store.rglob("*") if path.is_dir() and len(path.name) > 22]
    return [*sorted({name[-22:] for name in names if not name.endswith("/")}), IDS[0]]


# ---------------------------------------------------------------- judged


def ask(words: list[str], folder: pathlib.Path) -> Done:
    signal.alarm(LIMIT_S)
    try:
        return run_here(words, folder)
    except BaseException:
        return Done(DIED, b"", traceback.format_exc())
    finally:
        signal.alarm(0)


def judge(tried: Input, words: list[str], done: Done, output: pathlib.Path) -> str | None:
    """What is wrong with an answer, or None."""
    if "Traceback" in done.err:
        return f"a traceback: {done.err[-2500:]}"
    if done.status not in STATUSES and not (done.status == ABSENT and NO_SUCH.search(done.err)):
        return f"status {done.status}: {done.err[-500:]}"
    if done.status in (3, 4) and not done.err and "verify" not in words:
        return f"status {done.status} without a word"
    if "--json" in words:
        for line in done.out.splitlines():
            json.loads(line)
    if b"\x1b" in done.out or "\x1b" in done.err:
        return "a terminal would obey a name of the store"
    if b"PRIVATE" in done.out or "PRIVATE" in done.err:
        return "a key is shown"
    left = sorted(output.iterdir()) if output.is_dir() else []
    if done.status in (3, 4) and left and words[0] == "remote":
        return f"status {done.status}, and {left} was written"
    if words[:2] == ["remote", "verify"] and done.status == 0 and tried.logs is None:
        for beside in (["fetch", str(tried.store), name] for name in tried.partitions):
            again = ["remote", *beside, *tried.words, "--output", f"{output}-{beside[-1]}"]
            found = ask(again, output.parent)
            is_gap = found.status == 1 and b"damaged" not in found.out  # only metadata says what should be there
            if found.status and not is_gap and not NO_SUCH.search(found.err):
                return f"verify finds nothing, and {again[1:4]} {of_status(found)}"
        again = ["remote", "metadata", str(tried.store), *tried.words]
        found = ask(again, output.parent)
        if found.status:
            return f"verify finds nothing, and metadata {of_status(found)}"
    if words[:2] == ["remote", "fetch"] and left:
        found = ask(["verify", str(output), "--json"], output.parent)
        errors = [row for row in map(json.loads, found.out.splitlines()) if row.get("severity") == "error"]
        if errors or found.status:
            return f"what was fetched is damaged (status {found.status}): {errors[:2]} {found.err[-500:]}"
    if words[:2] == ["remote", "metadata"] and done.status in (0, 1) and left:
        again = ["remote", "ls", str(tried.store), *tried.words, "--metadata", str(output), "--json"]
        found = ask(again, output.parent)
        if "remote_log_metadata" in found.err or "Traceback" in found.err:
            return f"the rebuilt metadata cannot be read: {found.err[-1500:]}"
    return None


def of_status(done: Done) -> str:
    return f"ends with {done.status}: {done.out[-400:]!r} {done.err[-600:]}"


def tree_of(folder: pathlib.Path) -> dict[str, tuple[int, int]]:
    return {str(path): ((s := path.lstat()).st_size, s.st_mtime_ns) for path in folder.rglob("*") if not path.is_dir()}


def late(*_: object) -> None:
    raise TimeoutError(f"no answer in {LIMIT_S} s")


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def one(seed: int, number: int) -> tuple[str, str | None]:
    """(what was done and asked, what is wrong with the answer)."""
    rng = random.Random(f"{seed}-{number}")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        folder = pathlib.Path(name)
        tried = lay_out(rng, folder)
        for wound in rng.choices(WOUNDS, k=rng.choice((0, 1, 1, 1, 2, 3))):
            if tried.objects():
                wound(rng, tried)
                tried.told.append(wound.__name__)
        if tried.logs is not None and rng.random() < 0.3:
            tried.logs = None
        output, before = folder / "output", tree_of(tried.store)
        words = questions(rng, tried, output)
        began, peak = time.monotonic(), peak_bytes()
        done = ask(words, folder)
        took_s, grown = time.monotonic() - began, peak_bytes() - peak
        wrong = judge(tried, words, done, output)
        if wrong is None and tree_of(tried.store) != before:
            wrong = "the store is not as before"
        if wrong is None and (took_s > LIMIT_S / 2 or (peak_bytes() > LIMIT_BYTES and grown)):
            wrong = f"{took_s:.1f} s, {grown >> 20} MB more"
        return f"{'+'.join(tried.told)}: klogtool {' '.join(words)}".replace(name, "TMP"), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument(
        "--first", type=int, default=0, help="begin with this one: `--first N --inputs 1` asks it again"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    add_option(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, late)
    until, findings, count = time.monotonic() + options.seconds, 0, 0
    for number in range(options.first, options.first + options.inputs):
        if time.monotonic() > until:
            break
        asked, wrong = one(options.seed, number)
        count += 1
        if wrong:
            findings += 1
            print(f"input {number} of seed {options.seed}: {asked}\n  {wrong}", flush=True)
    add(options.add, "remote.py", inputs=count, found=findings)
    print(f"{count} hostile stores, seed {options.seed}: {findings or 'nothing'} found; peak {peak_bytes() >> 20} MB")
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
