"""Options for a log that recovery cuts, that ends too early, or that a broker does not load.

Each option is decided here, over a draft, so its loss is measured. An option that no decision accepts is not offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, UNCLEAN, LastStop
from klogtool.broker.draft import Draft
from klogtool.broker.metadata.image import replays_without_damage
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.doctor.answers import Ahead, Option, Remedy, Strategy, by_hand
from klogtool.doctor.file_options import mending
from klogtool.doctor.fixes import touches_other
from klogtool.doctor.measured import find_set_aside, first_offset_of
from klogtool.doctor.metadata_options import copy_option
from klogtool.doctor.option_prices import Priced, price_of, price_of_files
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import METADATA_TOPIC, FileKind, build_file_name, is_found_by_java, parse_file_name
from klogtool.log.partition import Partition
from klogtool.plans.decisions import decide
from klogtool.plans.mend import DeleteFile, RenameFile, SetOffset
from klogtool.plans.plan import Plan, Step
from klogtool.plans.rebuild_index import KINDS, RebuildIndexQuestion, SideFile
from klogtool.plans.recover_log_dir import RecoverQuestion
from klogtool.plans.recover_result import Recovery
from klogtool.plans.salvage import SalvageQuestion
from klogtool.plans.salvage_answer import SalvageResult
from klogtool.verify.cures import rebuild_index, recover, salvage, unpacking

_WITNESSES = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)
_LEFTOVERS = tuple(f"{FileKind.LOG.value}{suffix}" for suffix in (CLEANED, SWAP))
_BROKERS_WAY = "as the broker does it"
_CHANGES_LOST = "no change after the damage is forgotten"


def cut_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a log that a start cuts: salvage, another replica, the broker's way."""
    yield from _without_swaps(point.path, patient)
    yield from _leftovers_back(point, patient)
    yield from salvage_options(point.path, patient)
    yield replica_option(point.path)
    yield from _brokers_way(point, patient)


def cut_metadata_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a metadata log that a start cuts: another copy; salvage, if the release replays what is
    kept; the broker's way. Without a topic's record, those of its partitions end a start."""
    yield copy_option(point.path)
    if replays_without_damage(point.path, patient.rules):
        for option in salvage_options(point.path, patient):
            yield replace(option, price=_CHANGES_LOST)
    yield from _brokers_way(point, patient)


def _brokers_way(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to cut a log as a start does."""
    question = RecoverQuestion(circumstances=patient.circumstances)
    plan = _decided("recover", point.path, question)
    if plan is not None:
        option = Option(
            _BROKERS_WAY,
            point.path,
            recover(point.path),
            Strategy.AS_THE_BROKER,
            lost_ms=point.lost_ms if point.lost_records else None,
            remedies=(Remedy("recover", point.path, question),),
        )
        yield priced(option, price_of(plan, patient))


def early_end_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a log whose clean marker is false: a recovery in spite of it, salvage, another replica."""
    yield from _recovering(point, patient, UNCLEAN)
    yield from salvage_options(point.path, patient)
    yield replica_option(point.path)


def damage_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for damage that a start does not read. A recovery that does not come to it would leave it."""
    yield from _recovering(point, patient, UNCLEAN, must_change_logs=True)
    yield from salvage_options(point.path, patient, must_change_logs=True)
    yield replica_option(point.path)


def hidden_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for records that are in the segments and that nobody is served. A salvage that keeps all logs
    as they are would leave them hidden."""
    yield from _names_back(point.path, patient)
    yield from salvage_options(point.path, patient, must_change_logs=True)
    yield replica_option(point.path)


def _names_back(path: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to give segments whose names are too high those of their first batches."""
    draft = _draft_of(path)
    moves = {} if draft is None else dict(_walk_moves(draft))
    if draft is None or not moves:
        return
    offsets = [parse_file_name(new).base_offset or 0 for new in moves.values() if new.endswith(FileKind.LOG.value)]
    title = f"give each segment the name of its first batch ({', '.join(f'{offset:,}' for offset in offsets[:3])})"
    yield from _renaming(path, title, draft, moves, patient)


def _leftovers_back(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give a `.log` that a start would delete the name of its segment, which is not there."""
    draft, moves = _draft_of(point.path), dict[str, str]()
    if draft is None:
        return
    for name in draft.before:
        base, plain = parse_file_name(name).base_offset, os.path.splitext(name)[0]
        is_lost = base is not None and (point.first_offset or 0) <= base <= (point.last_offset or -1)
        if name.endswith(_LEFTOVERS) and is_lost and plain not in draft.before:
            moves[name] = plain
    if moves:
        yield from _renaming(point.path, f"make segments of {' and '.join(moves)}", draft, moves, patient)


def set_aside_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give segments their names back that somebody renamed, like `.log.bak`."""
    draft = _draft_of(point.path)
    if draft is not None:
        moves = find_set_aside(draft.before)
        names = " and ".join([*moves][:3]) + (f" and {len(moves) - 3:,} more" if len(moves) > 3 else "")
        yield from _renaming(point.path, f"give {names} the name of a segment again", draft, moves, patient)


def _unpacking(point: Ahead) -> Iterator[Option]:
    """Yield what to do about segments that are missing, and that somebody seems to have compressed."""
    draft = _draft_of(point.path)
    for old, new in () if draft is None else find_set_aside(draft.before, packed=True).items():
        unpack, base = unpacking(os.path.join(point.path, old)), parse_file_name(new).base_offset or 0
        if unpack is not None and (point.first_offset or 0) <= base <= (point.last_offset or -1):
            command = f"{unpack}  # before the broker starts"
            yield by_hand(point.path, command, f"unpack {old}")


def _renaming(path: str, title: str, draft: Draft, moves: Mapping[str, str], patient: Patient) -> Iterator[Option]:
    """Yield the option to rename files of a partition dir."""
    price = price_of_files(path, {moves.get(name, name): file for name, file in draft.before.items()}, patient)
    if price.readable is None:  # a broker does not load it
        return
    inside = os.path.relpath(path, patient.log_dir_of(path))
    option = mending(
        title,
        path,
        "; ".join(
            f"mv -n {quoted(os.path.join(path, old))} {quoted(os.path.join(path, new))}" for old, new in moves.items()
        ),
        tuple(RenameFile(os.path.join(inside, old), os.path.join(inside, new)) for old, new in moves.items()),
        patient,
    )
    yield priced(option, price)


def _walk_moves(draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield the files of segments with too high a name, and their right names. A file that has that name stays."""
    parsed = sorted((parse_file_name(name) for name in draft.before), key=lambda file: file.base_offset or 0)
    logs = [file for file in parsed if file.kind is FileKind.LOG and not file.suffix and (file.base_offset or -1) >= 0]
    for log in logs:
        base = log.base_offset or 0
        with ContentFile(log.name, draft.before[log.name].content) as file:
            first = first_offset_of(file)
        if first is None or first >= base or build_file_name(FileKind.LOG, first) in draft.before:
            continue
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX):
            old, new = build_file_name(kind, base), build_file_name(kind, first)
            if old in draft.before and new not in draft.before:
                yield old, new


def _without_swaps(path: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to delete the `.swap` files that replace segments which have more."""
    draft = _draft_of(path)
    names = [name for name in draft.before if name.endswith(SWAP) and is_found_by_java(name)] if draft else []
    if draft is None or not names:
        return
    edits = tuple(DeleteFile(os.path.relpath(os.path.join(path, name), patient.log_dir_of(path))) for name in names)
    kept = {name: file for name, file in draft.before.items() if name not in names}
    option = mending(
        "delete the .swap files: the segments stay as they are",
        path,
        "rm " + " ".join(quoted(os.path.join(path, name)) for name in names),
        edits,
        patient,
    )
    yield priced(option, price_of_files(path, kept, patient))


def priced(option: Option, price: Priced) -> Option:
    """Return the option with what it loses; only what is measured is said to lose nothing."""
    lost = price.lost
    is_free = option.strategy is Strategy.NOTHING_LOST and lost.records != 0
    strategy = Strategy.AS_THE_BROKER if is_free else option.strategy
    lost_ms = 0 if lost.records == 0 else option.lost_ms or None
    return replace(
        option, strategy=strategy, lost_records=lost.records, lost_ms=lost_ms, lost=lost, readable=price.readable
    )


def loading_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a partition that a broker does not load: what makes it loadable, tried in memory."""
    partition = patient.partition_of(point.path)
    if not os.path.isdir(partition.path) or partition.topic == METADATA_TOPIC:
        return
    if point.path.endswith(FileKind.TXN_INDEX.value):
        yield from rebuilding_options(partition.path, "txnindex", patient)
    yield from _names_back(partition.path, patient)
    yield from _recovering(replace(point, path=partition.path), patient, UNCLEAN)
    yield from salvage_options(partition.path, patient)


def gap_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for records that are gone: a file that somebody compressed; another replica; or to give them
    up."""
    yield from _unpacking(point)
    yield replica_option(point.path)
    yield from _giving_up(point.path, patient)


def _giving_up(path: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to lower the lines of checkpoints that are beyond the log's end. They are what shows that
    records are missing, and a broker lowers them when it next writes these files."""
    log_dir, key = patient.log_dir_of(path), Partition(path).topic_partition
    question = RecoverQuestion(circumstances=patient.circumstances)
    plan = _decided("recover", path, question)
    recovery = None if plan is None else plan.result
    if key is None or not isinstance(recovery, Recovery) or recovery.loses_records:
        return  # what is beyond the end may be in the files
    if recovery.behind_end is not None and recovery.behind_end.damage:
        return
    end, lines = recovery.log_end_offset, patient.checkpoints_of(path)
    beyond = [kind.value for kind in _WITNESSES if (lines.find_line(kind, key) or 0) > end]
    if beyond:
        edits = tuple(SetOffset(name, key.topic, key.partition, end) for name in beyond)
        option = mending(
            f"give up what is missing: lower its lines in {' and '.join(beyond)} to {end:,}",
            path,
            "sed -i -E "
            + quoted(f"s/^{re.escape(key.topic)} {key.partition} [0-9]+$/{key.topic} {key.partition} {end}/")
            + " "
            + " ".join(quoted(os.path.join(log_dir, name)) for name in beyond),
            edits,
            patient,
            strategy=Strategy.AS_THE_BROKER,
        )
        yield replace(option, erases_witness=True)


def replica_option(path: str) -> Option:
    """Return the option to fill a log from another copy. klogtool does not know where one is."""
    return Option(
        "fill it from another replica's copy COPY",
        path,
        f"klogtool salvage {quoted(path)} --replica COPY --output DIR",
        Strategy.NOTHING_LOST,
    )


def salvage_options(path: str, patient: Patient, *, must_change_logs: bool = False) -> Iterator[Option]:
    """Yield salvage, if there is something to salvage and a broker loads the result."""
    question = SalvageQuestion(circumstances=patient.circumstances)
    plan = _decided("salvage", path, question)
    if plan is not None and (not must_change_logs or any(map(_is_of_log, plan.steps))):
        rejects = isinstance(plan.result, SalvageResult) and plan.result.rejected
        option = Option(
            "salvage: keep all sound batches",
            path,
            salvage(path),
            Strategy.DAMAGED_ONLY if rejects else Strategy.NOTHING_LOST,
            remedies=(Remedy("salvage", path, question),),
        )
        yield priced(option, price_of(plan, patient))


def _is_of_log(step: Step) -> bool:
    return any(getattr(step, name, "").endswith(FileKind.LOG.value) for name in ("path", "to"))


def _recovering(
    point: Ahead, patient: Patient, last_stop: LastStop, *, must_change_logs: bool = False
) -> Iterator[Option]:
    question = RecoverQuestion(circumstances=replace(patient.circumstances, last_stop=last_stop))
    plan = _decided("recover", point.path, question)
    if plan is None or (must_change_logs and not any(map(_is_of_log, plan.steps))):
        return
    loses_records = isinstance(plan.result, Recovery) and plan.result.loses_records
    option = Option(
        f"recover it as after {'an unclean' if last_stop != CLEAN else 'a clean'} stop",
        point.path,
        recover(point.path, last_stop),
        Strategy.AS_THE_BROKER if loses_records else Strategy.NOTHING_LOST,
        remedies=(Remedy("recover", point.path, question),),
    )
    yield priced(option, price_of(plan, patient))


def rebuilding_options(path: str, only: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to rebuild side files; salvage, which builds them anew, if the log is damaged. only: their
    kinds, joined by commas."""
    kinds: tuple[SideFile, ...] = tuple(kind for kind in KINDS if kind in only.split(","))
    question = RebuildIndexQuestion(circumstances=patient.circumstances, only=kinds)
    if _decided("rebuild-index", path, question) is not None:
        yield Option(
            f"rebuild its {' and '.join(f'.{kind}' for kind in kinds)} files",
            path,
            rebuild_index(path, only),
            Strategy.NOTHING_LOST,
            remedies=(Remedy("rebuild-index", path, question),),
        )
    else:
        yield from salvage_options(path, patient)


def _draft_of(path: str) -> Draft | None:
    """Return the files of a partition dir; None if some cannot be read, so that no plan can be made."""
    try:
        return Draft.of(path)
    except KlogError:
        return None


def _decided(command: str, path: str, question: Any) -> Plan | None:
    """Return the plan for a partition dir; None if the command refuses it, or `apply` would."""
    try:
        plan = next((plan for plan in decide(command, path, question) if plan.path == path), None)
        return None if plan is None or touches_other(plan) else plan
    except KlogError:
        return None
