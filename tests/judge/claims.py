"""What `klogtool doctor` claims of log dirs, read from its JSON Lines (docs/contract.md, claims).

Only the typed form of a claim is klogtool's; what is true, the judge finds out apart from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from running import Done, run_here

from klogtool.doctor.claims import BrokerClaim, Claim, LogDirClaim, OffsetRange, OptionClaim, PartitionClaim

from .bases import CONFIG, LOG_DIRS, QUIET

Ranges: TypeAlias = tuple[OffsetRange, ...]
KINDS: Mapping[str, type[Claim]] = {
    "broker": BrokerClaim,
    "log-dir": LogDirClaim,
    "partition": PartitionClaim,
    "option": OptionClaim,
}


class Claims(Struct, frozen=True):
    """broker: None where the doctor gave no answer; failure says why. Partitions and log dirs have names as in Truth.
    ahead: what the start does, and to what; fixable: numbers of the options that `--fix` carries out, and whom for."""

    broker: BrokerClaim | None
    failure: str = ""
    log_dirs: dict[str, LogDirClaim] = {}
    partitions: dict[str, PartitionClaim] = {}
    options: dict[int, OptionClaim] = {}
    ahead: tuple[tuple[str, str], ...] = ()
    fixable: tuple[tuple[int, str], ...] = ()


def klogtool(root: Path, *args: str | int | Path) -> Done:
    """Run klogtool in this process."""
    return run_here([str(arg) for arg in args], root)


def ask_doctor(version: str, root: Path, *words: str | int | Path) -> Done:
    """Ask the doctor about d0 and d1 of a folder. It is told what no disk tells: the size of indexes, since a broker
    ends over one that is larger, and that there is no cleaner."""
    dirs = [root / name for name in LOG_DIRS]
    index_bytes = f"segment.index.bytes={CONFIG['log.index.size.max.bytes']}"
    quiet = [word for name, value in QUIET.items() for word in ("--config", f"{name}={value}")]
    return klogtool(root, "doctor", *dirs, "--kafka", version, "--config", index_bytes, *quiet, "--no-progress", *words)


def claims_of(version: str, root: Path) -> Claims:
    """What the doctor claims about d0 and d1 of a folder."""
    done = ask_doctor(version, root, "--format", "json")
    if done.status not in (0, 1):
        return Claims(None, f"status {done.status}: {(done.err or done.out.decode(errors='replace'))[-400:]}")
    return claims_in(root, [json.loads(line) for line in done.out.splitlines()])


def claims_in(root: Path, rows: Iterable[dict[str, Any]]) -> Claims:
    """The claims among the lines of an answer."""
    broker: BrokerClaim | None = None
    log_dirs, partitions, options = {}, {}, {}
    ahead, fixable = [], []
    for row in rows:
        if row["type"] == "claim":
            claim = msgspec.convert(row, type=KINDS[row["about"]])
            match claim:
                case BrokerClaim():
                    broker = claim
                case LogDirClaim():
                    log_dirs[short(root, claim.path)] = claim
                case PartitionClaim():
                    partitions[short(root, claim.path)] = claim
                case OptionClaim():
                    options[claim.number] = claim
        elif row["type"] == "ahead":
            ahead.append((row["what"], short(root, row["path"])))
        elif row["type"] == "option" and row.get("fix"):
            fixable.append((row["number"], str(row["for"])))
    failure = "" if broker else "no claim about the broker"
    return Claims(broker, failure, log_dirs, partitions, options, tuple(ahead), tuple(fixable))


def short(root: Path, path: str) -> str:
    """A path below the log dirs without what is before them."""
    return str(Path(path).relative_to(root)) if path.startswith(f"{root}/") else path


def offsets_in(ranges: Ranges) -> set[int]:
    """All offsets of ranges; of a range that is absurdly long only its ends."""
    found: set[int] = set()
    for first, last in ranges:
        found |= set(range(first, last + 1)) if last - first < 1000000 else {first, last}
    return found


def is_in(offset: int, ranges: Iterable[tuple[int, int]]) -> bool:
    """Whether a range holds the offset."""
    return any(first <= offset <= last for first, last in ranges)
