"""Each claim of the doctor held against what a broker did. What is yielded is a sentence that was not true.

A claim that is null says that nobody knows. Where the broker loads a log and serves it, what a start makes of its
offsets and files is known, so null is false there. Records below a log start that the checkpoint names were deleted on
purpose: a claim may count them or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from klogtool.doctor.claims import PartitionClaim, WhyUnknown

from .bases import LOG_DIRS, MANY_COMPACTED
from .claims import Claims, Ranges, is_in
from .disks import CHECKPOINTS, read_lines
from .records_on_disk import (
    Found,
    batches_in,
    batches_left,
    batches_of,
    batches_set_aside,
    doubtful_of,
    keys_of,
    names_and_bytes,
    records_of,
)
from .truth import Loaded, Truth, is_plain

# A broker deletes these a minute after the start, or at once.
PASSING = (".deleted",)
# What a broker writes again while it runs is compared by name only: indexes have their full size then, and a leader
# notes its epoch.
KEPT = (".log", ".txnindex", ".snapshot", "partition.metadata")

EPOCHS = "leader-epoch-checkpoint"
COMPACTED = (MANY_COMPACTED, "comp", "__")
OFFSET_DIGITS = 20
LOADED_TELLS = (*Loaded._fields, "deleted", "renamed", "rewritten")
HIGHEST = 1 << 62  # no log reaches this offset: a number above it is a mistake
EPOCH = re.compile(r"\d+ \d+")


@dataclass(frozen=True)
class Before:
    """A partition dir before the start. records: sound, at or above the log start, in left-overs of a cleaning, too;
    below: below it, far off, or deleted on purpose. end: behind the last sound batch. files: names, and CRCs of bytes.
    reaches: how far the log reached, by each witness. holes: between sound segments of a log that nobody compacts.
    spans: offsets of each sound batch, in whatever file. is_linked_nowhere: a broker does not see one of its files.
    keys: of the records of a log that is compacted, if a cleaned segment is to replace others."""

    records: frozenset[Found]
    below: frozenset[Found]
    end: int
    files: Mapping[str, int]
    reaches: Mapping[str, int]
    holes: Ranges = ()
    spans: Ranges = ()
    is_linked_nowhere: bool = False
    keys: Mapping[Found, bytes | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """A false sentence. about: a partition dir (d0/t-0), a log dir, or "broker"."""

    kind: str
    about: str
    told: str


def before_start(root: Path) -> dict[str, Before]:
    """All partition dirs of both log dirs, as they are now."""
    found = {}
    for log_dir in LOG_DIRS:
        points, high_watermarks, starts, cleaned = (_lines(root / log_dir / name) for name in CHECKPOINTS)
        for path in sorted((root / log_dir).iterdir()):
            folder = f"{log_dir}/{path.name}"
            if path.is_dir() and is_plain(folder):
                reaches = {
                    "high watermark": high_watermarks.get(path.name, 0),
                    "recovery point": points.get(path.name, 0),
                }
                is_cleaned = path.name in cleaned
                reaches |= _reaches_in(path)
                found[folder] = _before(path, starts.get(path.name, 0), reaches, is_cleaned=is_cleaned)
    return found


def _reaches_in(path: Path) -> dict[str, int]:
    """How far the log reached by the newest producer snapshot, and by the newest leader epoch."""
    names = (file.stem for file in path.glob("*.snapshot") if file.is_file())
    snapshots = [int(name) for name in names if len(name) == OFFSET_DIGITS and name.isdigit()]
    return {"snapshot": max(snapshots, default=0), "leader epoch": _last_epoch_start(path / EPOCHS)}


def _last_epoch_start(file: Path) -> int:
    """Where the last epoch begins; 0 unless the file is as a broker writes it."""
    lines = file.read_text(errors="replace").splitlines() if file.is_file() else []
    if len(lines) < 3 or lines[0] != "0" or not all(EPOCH.fullmatch(line) for line in lines[2:]):
        return 0
    rows = [tuple(map(int, line.split())) for line in lines[2:]]
    return rows[-1][1] if lines[1] == str(len(rows)) and rows == sorted(rows) else 0


def _holes(path: Path, log_start: int) -> Iterator[tuple[int, int]]:
    """Offsets between neighbouring segments that are sound, each in a row without a gap. A cleaner leaves gaps inside
    of segments, too, and batches without records."""
    logs = sorted(log for log in path.glob("*.log") if log.is_file() and len(log.stem) == OFFSET_DIGITS)
    spans = [_span_of(log) for log in logs]
    is_cleaned = any(not (batch.records or batch.is_control) for batch in batches_of(path))
    if None in spans or is_cleaned or path.name.startswith(COMPACTED):
        return
    for (_, end), (start, _) in pairwise(span for span in spans if span):
        if max(end, log_start) < start:
            yield max(end, log_start), start - 1


def _span_of(log: Path) -> tuple[int, int] | None:
    """Where a segment begins and ends; None unless it is sound, as its name says, and without a gap."""
    batches, base = batches_in(log), int(log.stem)
    ends = [base, *(batch.last_offset + 1 for batch in batches)]
    is_sound = sum(batch.size for batch in batches) == log.stat().st_size
    return (base, ends[-1]) if is_sound and ends[:-1] == [batch.base_offset for batch in batches] else None


def _lines(checkpoint: Path) -> Mapping[str, int]:
    try:
        return read_lines(checkpoint)
    except ValueError:
        return {}


def _before(path: Path, log_start: int, reaches: Mapping[str, int], *, is_cleaned: bool) -> Before:
    found = [*batches_of(path), *batches_left(path, ".log.swap"), *batches_left(path, ".log.cleaned")]
    deleted = batches_left(path, ".log.deleted")
    batches = [batch for batch in found if not batch.is_far]
    ends = (batch.last_offset + 1 for batch in [*batches, *deleted] if batch.is_sound)
    records, end = records_of(batches), max(ends, default=0)
    is_start_of_it = log_start <= end
    below = frozenset(record for record in records if is_start_of_it and record.offset < log_start)
    below |= records_of(batch for batch in found if batch.is_far) | records_of(deleted)
    below |= (records_of(batches_set_aside(path)) | doubtful_of([*found, *deleted])) - records
    return Before(
        frozenset(records - below),
        below,
        end,
        names_and_bytes(path),
        reaches,
        () if is_cleaned else tuple(_holes(path, log_start)),
        tuple((batch.base_offset, batch.last_offset) for batch in (*found, *deleted, *batches_set_aside(path))),
        any(file.is_symlink() and not file.exists() for file in path.iterdir()),
        keys_of(batches) if path.name.startswith(COMPACTED) and any(path.glob("*.log.swap")) else {},
    )


def differences(claims: Claims, truth: Truth, before: Mapping[str, Before]) -> Iterator[Difference]:
    """Every claim that the broker refutes."""
    if claims.broker is None:
        yield Difference("FAILED", "broker", claims.failure)
        return
    if claims.broker.starts is not None and claims.broker.starts != truth.is_up:
        did = "it starts" if truth.is_up else f"it does not: {truth.troubles[:2]}"
        yield Difference("START", "broker", f"claim: starts is {claims.broker.starts}; {did}")
        return
    if not truth.is_up:
        error = claims.broker.error
        if error and error.rsplit(".", 1)[-1] not in truth.thrown:
            yield Difference("ERROR", "broker", f"claim: {error}; thrown: {sorted(truth.thrown)}")
        return
    if claims.broker.leader_elected is False and any(not reading.error for reading in truth.read.values()):
        yield Difference("LEADER", "broker", "claim: no leader is elected; consumers are served")
    yield from _about_log_dirs(claims, truth)
    for folder, claim in claims.partitions.items():
        if is_plain(folder) and folder in before and not _is_told(folder, claims, truth):
            yield from _about_partition(folder, claim, claims, truth, before[folder])
    for folder in sorted(truth.loaded.keys() & before.keys() - claims.partitions.keys()):
        yield Difference("SILENT", folder, "the broker loads it, and there is no claim about it")


def _about_log_dirs(claims: Claims, truth: Truth) -> Iterator[Difference]:
    for name, claim in claims.log_dirs.items():
        if claim.online is not None and claim.online == (name in truth.offline):
            did = f"offline: {truth.troubles[:2]}" if name in truth.offline else "online"
            yield Difference("LOG DIR", name, f"claim: online is {claim.online}; it is {did}")
    strays = {path for what, path in claims.ahead if what == "stray"}
    for folder in sorted(strays ^ truth.strays):
        yield Difference("STRAY", folder, f"{'claimed' if folder in strays else 'not claimed'}, but otherwise")


def _is_told(folder: str, claims: Claims, truth: Truth) -> bool:
    """Whether the claim about its log dir is false: then it is not held against each partition of it, too."""
    name = folder.split("/")[0]
    claimed = claims.log_dirs[name].online if name in claims.log_dirs else None
    return claimed is not None and claimed == (name in truth.offline)


def _about_partition(
    folder: str, claim: PartitionClaim, claims: Claims, truth: Truth, before: Before
) -> Iterator[Difference]:
    def differ(kind: str, told: str) -> Difference:
        return Difference(kind, folder, told)

    is_served = folder in truth.loaded and folder not in truth.strays and folder.split("/")[0] not in truth.offline
    reading = truth.reading(folder) if is_served else None
    is_served = is_served and not (reading and reading.error)
    is_known = reading is not None or not is_served  # what is loaded need not have a leader
    if claim.served is not None and claim.served != is_served and is_known:
        yield differ(
            "SERVED", f"claim: {claim.served}; error {reading and reading.error}, loaded {folder in truth.loaded}"
        )
    yield from _about_lost(claim, truth, before, folder, differ)
    if not is_served:
        return
    yield from _about_unknown(claim, before, differ)
    yield from _about_bounds(claim, truth.loaded[folder], differ)
    name = folder.split("/")[1]
    is_written = name in truth.written or name.startswith("__")  # coordinators write to their own logs
    after = truth.files[folder], truth.files_without_markers.get(folder, truth.files[folder])
    yield from _about_files(claim, before.files, after, is_written, differ)
    yield from _about_gone(claim, before, truth.loaded[folder], differ)
    if reading:
        if reading.is_complete:
            yield from _about_hidden(claim, before, truth.kept[folder], reading.records, differ)
        is_told = any(path == folder or path.startswith(f"{folder}/") for _, path in claims.ahead)
        stuck = [offset for offset in reading.stuck if offset < before.end]  # behind all records it only waits
        if stuck and claim.hidden.records == 0 and not is_told:
            yield differ("STUCK", f"a consumer cannot go on at {stuck[:3]}, and nothing is said of it")


Differ = Callable[[str, str], Difference]


def _about_unknown(claim: PartitionClaim, before: Before, differ: Differ) -> Iterator[Difference]:
    """Of a log that is loaded and served, nothing of this is unknown. That it is not served is another claim."""
    if claim.served is False or before.is_linked_nowhere:
        return
    gone = claim.gone_already  # retention, or a person: nothing on the disk tells
    said = {name: getattr(claim, name) for name in LOADED_TELLS}
    said |= {"gone_already": gone.perhaps or gone.ranges}
    if unknown := sorted(name for name, value in said.items() if value is None):
        yield differ("UNKNOWN", f"claim: null for {unknown}; the broker loads the log and serves it")


def _about_bounds(claim: PartitionClaim, loaded: Loaded, differ: Differ) -> Iterator[Difference]:
    for name in Loaded._fields:
        said, is_so = getattr(claim, name), getattr(loaded, name)
        if said is not None and said != is_so:
            yield differ(name.upper(), f"claim: {said}; broker: {is_so}")


def _about_files(
    claim: PartitionClaim,
    before: Mapping[str, int],
    afterwards: tuple[Mapping[str, int], Mapping[str, int]],
    is_written: bool,
    differ: Differ,
) -> Iterator[Difference]:
    """Which files are deleted, which have another name, and (where nobody wrote to them since) which are changed.

    afterwards: whole files, and without appended markers. A file is changed if neither is as before."""
    after, unmarked = afterwards
    if claim.deleted is not None and claim.renamed is not None:
        gone = {name for name in before if name not in after and not name.endswith(PASSING)}
        claimed = {name for name in (*claim.deleted, *claim.renamed) if not name.endswith(PASSING)}
        made_again = claimed & after.keys() if is_written else set()  # an index, where the log was rolled
        # A leader notes its epoch after the start, through this file.
        noted = {f"{EPOCHS}.tmp"} if before.get(EPOCHS) != after.get(EPOCHS) else set()
        if gone - noted != claimed - made_again - noted:
            yield differ("DELETED", f"claim: {sorted(claimed)}; gone: {sorted(gone)}")
    if unnamed := [name for name in claim.renamed or () if name.removesuffix(".swap") not in after]:
        yield differ("RENAMED", f"claim: {unnamed}; there is no such file without .swap")
    if claim.rewritten is None:
        return
    there = {name for name in before.keys() & after.keys() if name.endswith(KEPT)}
    changed = {name for name in there if before[name] not in (after[name], unmarked[name])}
    claimed = {name for name in claim.rewritten if name.endswith(KEPT)}
    replaced = {name for name in claimed if f"{name}.swap" in before}  # perhaps by the same bytes
    # A recovery, too, writes what looks as if it was appended.
    other = {name for name in there if before[name] != after[name]}
    if not is_written and not changed <= claimed <= other | replaced:
        yield differ("REWRITTEN", f"claim: {sorted(claimed)}; changed: {sorted(changed)}")


def _about_lost(
    claim: PartitionClaim, truth: Truth, before: Before, folder: str, differ: Differ
) -> Iterator[Difference]:
    kept = {record for name, records in truth.kept.items() if _same(name, folder) for record in records}
    reading = truth.reading(folder)
    # What stays on the disk and is served to nobody any more may be called lost, or hidden.
    there = kept & reading.records if reading and reading.is_complete and not reading.error else kept
    lost = before.records - kept - _superseded(before, kept)
    may = set(before.records | before.below) - there
    yield from _counted("LOST", claim.lost.records, claim.lost.ranges, lost, may, differ)
    wrong = [r.offset for r in before.records & there if is_in(r.offset, claim.lost.ranges)]
    still = {record.offset for record in lost | may}  # other records at the same offset
    if wrong := sorted(set(wrong) - still):
        yield differ("LOST", f"claim: {claim.lost.ranges} are lost; {wrong[:5]} are there afterwards")


def _superseded(before: Before, kept: set[Found]) -> set[Found]:
    """Records that a cleaner may leave out: a newer one has the same key, and stays."""
    newest: dict[bytes, int] = {}
    for record, key in before.keys.items():
        if key is not None and record in kept:
            newest[key] = max(newest.get(key, -1), record.offset)
    keyed = ((record, key) for record, key in before.keys.items() if key is not None)
    return {record for record, key in keyed if newest.get(key, -1) > record.offset}


def _same(name: str, folder: str) -> bool:
    return name.split("/")[1].split(".")[0] == folder.split("/")[1]


def _counted(
    kind: str, claimed: int | None, ranges: Ranges, must: set[Found] | frozenset[Found], may: set[Found], differ: Differ
) -> Iterator[Difference]:
    """A count and ranges against what they must hold, and what they may hold beside that."""
    if claimed is None:
        return
    if not len(must) <= claimed <= len(must | may):
        offsets = sorted(record.offset for record in must)
        told = f"{offsets[0]}..{offsets[-1]}" if offsets else "none"
        yield differ(kind, f"claim: {claimed} {ranges}; disk and broker: {len(must)} ({told})")
    elif outside := sorted(record.offset for record in must if not is_in(record.offset, ranges)):
        yield differ(f"{kind} RANGES", f"claim: {ranges}; not in them: {outside[:5]}")


def _about_gone(claim: PartitionClaim, before: Before, loaded: Loaded, differ: Differ) -> Iterator[Difference]:
    """A range must not hold what is there; what a witness knows beyond the log, or between segments, must be in one,
    unless a file has it: that the doctor calls it lost or hidden does not show that."""
    gone = claim.gone_already
    if gone.ranges is None and gone.reason is not WhyUnknown.RETENTION:
        return
    ranges, perhaps = gone.ranges or (), gone.perhaps
    there = sorted(record.offset for record in before.records if is_in(record.offset, (*ranges, *perhaps)))
    if there:
        yield differ("GONE", f"claim: {ranges}, perhaps {perhaps} are on no disk; {there[:5]} are sound on this one")
    end = max(before.end, loaded.log_end_offset)
    known = (*ranges, *before.spans)
    for witness, reach in before.reaches.items():
        if end < reach < HIGHEST and not (is_in(end, known) and is_in(reach - 1, known)):
            yield differ("GONE", f"claim: {ranges}; the files end at {end}, the {witness} is {reach}")
    for first, last in before.holes:
        unsaid = [offset for offset in (first, last) if not is_in(offset, known)]
        if unsaid:
            yield differ("GONE", f"claim: {ranges}; no segment has {first} to {last}")


def _about_hidden(
    claim: PartitionClaim, before: Before, kept: set[Found], served: frozenset[Found], differ: Differ
) -> Iterator[Difference]:
    unserved = (before.records & kept) - served
    hidden = {record for record in unserved if not is_in(record.offset, claim.lost.ranges)}
    may = set((before.below | before.records) & kept) - served
    yield from _counted("HIDDEN", claim.hidden.records, claim.hidden.ranges, hidden, may, differ)
    offsets = {record.offset for record in unserved | may}
    wrong = sorted({r.offset for r in served if is_in(r.offset, claim.hidden.ranges)} - offsets)
    if wrong:
        yield differ("HIDDEN", f"claim: {claim.hidden.ranges} are hidden; {wrong[:5]} are served")
