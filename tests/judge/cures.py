"""The doctor's options, carried out: planned, applied, undone byte for byte, applied again, and a broker's start."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from klogtool.doctor.claims import OptionClaim, WhyUnknown, Witness

from .bases import FED, INTERNAL, LOG_DIRS
from .cases import ENDING_STARTS, Crowd, Outcome, a_place, copied, damaged_crowd, damaged_log_dirs, many
from .claims import Claims, ask_doctor, claims_of, is_in, klogtool, short
from .comparison import Before, Difference, before_start, differences
from .truth import Asked, Truth, is_plain, started

# A start drops a leader epoch that begins beyond the log's end, whatever was done before.
LASTING = set(Witness) - {Witness.GAP, Witness.DAMAGED_BYTES, Witness.LEADER_EPOCH}
OF_REACH = LASTING - {Witness.INDEX}
PARTITION = re.compile(r"\w+-\d+")
EXCLUDING = re.compile(r"options (\d+) and \d+ exclude each other")
SET_ASIDE = re.compile(r"^d\d/(\w+-\d+)\.\w+-(?:delete|stray)$")
NO_CLAIMS = Claims(None)
DRAWS = 20  # of log dirs with a few faults, most have an option


def judge_crowd_of_options(version: str, seed: str) -> Outcome:
    """An option of each trouble of many partitions."""
    with a_place() as place:
        crowd, faults = damaged_crowd(version, seed, place / "damaged")
        leave_what_nothing_mends(version, crowd)
        outcome = Outcome("options", version, seed, crowd.state, faults)
        return judged_options(outcome, place, random.Random(seed), many())


def judge_options_of_log_dirs(version: str, seed: str) -> Outcome:
    """An option of each trouble of whole log dirs. Faults that the doctor has no option for are drawn anew."""
    for draw in range(DRAWS):
        with a_place() as place:
            outcome = damaged_log_dirs(version, f"{seed}.{draw}" if draw else seed, place / "damaged")
            outcome.case = "dir options"
            outcome = judged_options(outcome, place, random.Random(seed), [*FED, *INTERNAL])
            if outcome.judged:
                break
    return outcome


def leave_what_nothing_mends(version: str, crowd: Crowd) -> None:
    """Lay down anew the partitions that end the start, and that the doctor has no plan for."""
    claims = claims_of(version, crowd.root)
    mended = {name for _, path in claims.fixable for name in Path(path).parts}
    for what, path in claims.ahead:
        for name in crowd.at.keys() & set(Path(path).parts) - mended:
            if what in ENDING_STARTS:
                crowd.lay_down(name)


def judged_options(outcome: Outcome, place: Path, rng: random.Random, partitions: list[str]) -> Outcome:
    """Choose an option for each trouble and hold what it claims against a start."""
    root, version = place / "damaged", outcome.version
    claims, before = claims_of(version, root), before_start(root)
    chosen = _chosen(claims, root, rng)
    outcome.judged = len(chosen)
    if not chosen:
        return outcome
    outcome.differences = list(_planned(version, root, place / "plan.json", chosen))
    if not chosen:
        return outcome
    outcome.differences += _carried_out(root, place / "plan.json")
    if any(difference.kind == "APPLY" for difference in outcome.differences):
        return outcome
    after, middle = claims_of(version, root), before_start(root)
    asked = Asked.WRITE if partitions == many() else Asked.TRANSACTIONS
    truth = started(version, copied(root, place / "broker"), asked, partitions)
    outcome.differences += [
        Difference(f"AFTER {difference.kind}", difference.about, difference.told)
        for difference in differences(after, truth, middle)
    ]
    outcome.differences += list(about_writes(after, truth))
    if truth.is_up:
        for number, path in chosen.items():
            if number in claims.options and is_plain(path) and path in before:
                outcome.differences += list(about_option(path, claims.options[number], before[path], truth, after))
                outcome.differences += list(about_witness(path, claims.options[number], claims, after, before[path]))
    return outcome


def _chosen(claims: Claims, root: Path, rng: random.Random) -> dict[int, str]:
    """One option for each partition or other path, by its number. A folder that gets its name back moves away what has
    this name, so it has no option of its own then."""
    by_owner: dict[str, dict[int, str]] = {}
    for number, full in claims.fixable:
        path = short(root, full)
        set_aside = SET_ASIDE.search(path)
        by_owner.setdefault(set_aside[1] if set_aside else partition_of(path), {})[number] = path
    chosen = (rng.choice(list(options.items())) for options in by_owner.values())
    return dict(chosen)


def partition_of(path: str) -> str:
    """The name of a partition dir, on whatever disk; another path is its own."""
    folder = Path(path)
    return folder.name if len(folder.parts) == 2 and PARTITION.fullmatch(folder.name) else path


def _planned(version: str, root: Path, plan: Path, chosen: dict[int, str]) -> Iterator[Difference]:
    """A plan of the options. One that is refused is told, left out of `chosen`, and the others are planned. Of two that
    change one log, each as if the other did not, one is left out."""
    while chosen:
        options = [word for number in chosen for word in ("--option", number)]
        done = ask_doctor(version, root, "--fix", *options, "--plan-out", plan)
        if done.status in (0, 1) and plan.exists():
            return
        if (both := EXCLUDING.search(done.told)) is not None and chosen.pop(int(both[1]), None) is not None:
            continue
        refused = {
            n: path for n, path in chosen.items() if any(f"/{part}/" in done.told for part in Path(path).parts[1:2])
        }
        yield Difference("PLAN", next(iter(refused.values()), "broker"), f"status {done.status} {done.told[-300:]}")
        for number in refused or list(chosen):
            del chosen[number]


def _carried_out(root: Path, plan: Path) -> Iterator[Difference]:
    """Apply the plan, take it back, apply it again."""
    before = _bytes_of(root)
    applied = klogtool(root, "apply", plan, "--format", "json")
    if applied.status not in (0, 1):
        yield Difference("APPLY", "broker", f"status {applied.status} {(applied.told or applied.out.decode())[-300:]}")
        return
    runs = [row for row in map(json.loads, applied.out.splitlines()) if row["type"] == "applied"]
    for run in reversed(runs):
        undone = klogtool(root, "undo", run["id"], "--journal", run["journal"])
        if undone.status and "undone" not in undone.told:
            yield Difference("UNDO", "broker", f"status {undone.status} {undone.told[-300:]}")
            return
    after = _bytes_of(root)
    if changed := sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)):
        yield Difference("UNDO", "broker", f"not as before: {changed[:4]}")
    again = klogtool(root, "apply", plan)
    if again.status not in (0, 1):
        yield Difference("APPLY", "broker", f"after undo: status {again.status} {again.told[-300:]}")


def _bytes_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Mode, time and bytes of all files of the log dirs: what undo promises."""
    files = [path for name in LOG_DIRS for path in sorted((root / name).rglob("*")) if path.is_file()]
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes())
        for path in files
    }


def about_option(
    path: str, claim: OptionClaim, before: Before, truth: Truth, after: Claims = NO_CLAIMS
) -> Iterator[Difference]:
    """Offsets that are to be readable are, others are not; and as many records are lost as the option says. after: the
    claims that follow it. What a folder of the same partition in another log dir hides is told there, and not lost."""
    reading = truth.reading(path)
    if not reading or reading.error or not reading.is_complete:
        return
    name, served = f"{path} option {claim.number}", {record.offset for record in reading.records}
    # Under whatever name, and offset: an option may give a folder another one, and correct a base offset.
    digests = {record.digest for other in truth.read.values() for record in other.records}
    others = [each for name, each in after.partitions.items() if name != path and Path(name).name == Path(path).name]
    hidden = [span for each in others for span in each.hidden.ranges]
    lost = {record for record in before.records if record.digest not in digests and not is_in(record.offset, hidden)}
    if claim.readable is not None:
        # Of two records at one offset only one can be read; that the other one is lost, is counted.
        unread = sorted({record.offset for record in lost if is_in(record.offset, claim.readable)} - served)
        # A consumer may get some records of a batch whose compressed bytes are damaged before it fails there.
        sound = {record.offset for record in before.records}
        unsaid = sorted(offset for offset in served & sound if not is_in(offset, claim.readable))
        if unread:
            yield Difference("OPTION", name, f"readable: {claim.readable}; not served: {unread[:5]} ({len(unread)})")
        if unsaid:
            yield Difference("OPTION", name, f"readable: {claim.readable}; served, too: {unsaid[:5]} ({len(unsaid)})")
    if claim.lost.records is not None and claim.lost.records < len(lost):
        offsets = sorted(record.offset for record in lost)
        told = f"lost: {claim.lost.records} {claim.lost.ranges}; not served any more: {len(lost)}, {offsets[:5]}"
        yield Difference("OPTION LOST", name, told)


def about_witness(
    path: str, option: OptionClaim, claims: Claims, after: Claims, before: Before
) -> Iterator[Difference]:
    """Unless the option erases a witness, what is shown to be gone is known afterwards, or can be read: by checkpoints,
    snapshots, epochs, indexes, and gaps between sound segments. What damaged bytes show goes with them, and what shows
    how far a log reached shows no more of a log that reaches as far again. What retention may have deleted, an option
    may not forget either: leader-epoch-checkpoint tells it, over starts, too."""
    now, then = claims.partitions.get(path), after.partitions.get(path)
    if option.erases_witness or now is None or then is None:
        return
    both = now.gone_already, then.gone_already
    if any(gone.ranges is None and gone.reason is not WhyUnknown.RETENTION for gone in both):
        return
    lasts = set(now.gone_already.witness) <= LASTING
    shown = [gone for gone in now.gone_already.ranges or () if lasts or gone in before.holes]
    known = [*(then.gone_already.ranges or ()), *then.gone_already.perhaps, *(option.readable or ())]
    if set(now.gone_already.witness) <= OF_REACH and then.log_end_offset is not None:
        shown = [gone for gone in shown if gone[1] >= then.log_end_offset]
    shown += now.gone_already.perhaps
    forgotten = [gone for gone in shown if not any(is_in(offset, known) for offset in gone)]
    if forgotten:
        yield Difference("WITNESS", f"{path} option {option.number}", f"gone before: {forgotten}; after it: {known}")


def about_writes(claims: Claims, truth: Truth) -> Iterator[Difference]:
    """What producers were told, and whether all is read afterwards: where nothing is ahead of a partition, and it is
    served for sure. A broker that ends takes some for a moment."""
    if claims.broker is not None and claims.broker.starts is False:
        return
    warned = {Path(path).parts[1] for _, path in claims.ahead if len(Path(path).parts) > 1}
    warned |= {Path(path).name for path, claim in claims.partitions.items() if claim.served is None}
    for partition, writing in truth.written.items():
        if partition in warned:
            continue
        again, read = truth.again.get(partition), truth.read[partition]
        if writing.error:
            yield Difference("WRITE", partition, writing.error[:300])
        elif again and again.is_complete and not again.error:
            missing = set(writing.offsets) - {record.offset for record in again.records}
            if missing:
                yield Difference("WRITE", partition, f"acknowledged and not read: {sorted(missing)}")
            if gone := read.records - again.records:
                yield Difference("WRITE", partition, f"no longer read: {sorted(gone)[:4]}")
