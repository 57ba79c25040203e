"""Options for a log that recovery cuts, that ends too early, or that a broker does not load.

Each option is decided here, over a draft, so its loss is measured. An option that no decision accepts is not offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import asdict, replace

from klogtool.broker.circumstances import UNCLEAN
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.draft import Draft, DraftFile, span_of
from klogtool.broker.metadata.image import replays_without_damage
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segments import DELETED
from klogtool.broker.unified_log.overflow_split import CLEANED, SWAP
from klogtool.causes import Reason
from klogtool.doctor.answers import Ahead, Option, Remedy, Strategy, by_hand
from klogtool.doctor.causes import AdviceCause
from klogtool.doctor.claims import HiddenBy
from klogtool.doctor.file_options import mending, moving_in_options
from klogtool.doctor.fixes import touches_other
from klogtool.doctor.measured import (
    find_blanked,
    find_doubtful_copies,
    find_emptied,
    find_set_aside,
    first_offset_of,
    unpacked_size,
)
from klogtool.doctor.metadata_options import copy_option, lost_of_metadata
from klogtool.doctor.option_prices import Priced, price_of, price_of_files
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import (
    METADATA_TOPIC,
    SEGMENT_KINDS,
    FileKind,
    build_file_name,
    is_visible_to_java,
    parse_file_name,
)
from klogtool.log.folder import find_nested_logs
from klogtool.log.partition import Partition
from klogtool.plans.decisions import decide
from klogtool.plans.erased_witness import ErasedWitnesses
from klogtool.plans.mend import DeleteFile, RenameFile, SetOffset
from klogtool.plans.plan import Delete, Plan
from klogtool.plans.rebuild_index import KINDS, RebuildIndexQuestion, SideFile
from klogtool.plans.recover import RecoverQuestion
from klogtool.plans.recover_result import Recovery
from klogtool.plans.salvage import SalvageQuestion
from klogtool.plans.salvage_answer import SalvageResult
from klogtool.verify.causes import CureCause
from klogtool.verify.cures import (
    MOST_MAGIC_BYTES,
    filling_from_copy,
    in_turn,
    rebuild_index,
    recover,
    renaming,
    salvage,
    unpacking,
    unpacking_into,
)
from klogtool.verify.only_copies import find_orphans, may_have
from klogtool.verify.swaps import offsets_in_log

_WITNESSES = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT)
_LEFTOVERS = tuple(f"{FileKind.LOG.value}{suffix}" for suffix in (CLEANED, SWAP, DELETED))


def cut_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a log that a start cuts: salvage, another replica, the broker's way.

    For a metadata log: another copy; salvage, if the release replays what is kept; the broker's way. Without a topic's
    record, those of its partitions end a start.
    """
    if os.path.basename(point.path) == CLUSTER_METADATA_DIR:
        yield copy_option(point.path)
        if replays_without_damage(point.path, patient.rules):
            for option in salvage_options(point.path, patient):
                yield replace(option, price=AdviceCause.NO_CHANGE_FORGOTTEN())
    else:
        yield from _refilling(point.path, _files_of(point.path), {}, patient)
        yield from _without_swaps(point.path, patient)
        yield from _leftovers_back(point, patient)
        yield from salvage_options(point.path, patient)
        yield replica_option(point.path)
    remedy = Remedy("recover", point.path, RecoverQuestion(**asdict(patient.circumstances)))
    plan = _decided(remedy)
    if plan is not None:
        lost_ms = point.lost_ms if point.lost_records else None
        title, command = AdviceCause.BROKERS_WAY(), recover(point.path)
        option = _planned(title, command, remedy, plan, Strategy.AS_THE_BROKER, patient, lost_ms)
        if os.path.basename(point.path) == CLUSTER_METADATA_DIR:  # what its snapshot has is not lost
            lost = lost_of_metadata(point.path, point.first_offset or 0)
            yield replace(option, lost=lost, lost_records=lost.records, readable=None)
        else:
            yield option


def early_end_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a log whose clean marker is false: a recovery in spite of it, salvage, another replica."""
    yield from _refilling(point.path, _files_of(point.path), {}, patient)
    yield from _recovering(point.path, patient)
    yield from salvage_options(point.path, patient)
    yield replica_option(point.path)


def damage_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for damage that a start does not read. A recovery that does not come to it would leave it."""
    yield from _refilling(point.path, _files_of(point.path), {}, patient)
    yield from _recovering(point.path, patient, must_change_logs=True)
    yield from salvage_options(point.path, patient, must_change_logs=True)
    yield replica_option(point.path)


def hidden_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for records that are in the segments and that nobody is served. A salvage that keeps all logs
    as they are would leave them hidden."""
    if point.hidden_by is HiddenBy.INDEX:
        yield from rebuilding_options(point.path, "index", patient)
        return
    yield from _refilling(point.path, _files_of(point.path), {}, patient)
    yield from _names_back(point.path, patient)
    yield from salvage_options(point.path, patient, must_change_logs=True)
    yield replica_option(point.path)


def _names_back(path: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to give segments whose names are too high those of their first batches."""
    files = _files_of(path)
    moves = dict(_walk_moves(files))
    if moves:
        offsets = [parse_file_name(new).base_offset or 0 for new in moves.values() if new.endswith(FileKind.LOG.value)]
        shown = tuple(f"{offset:,}" for offset in offsets[:3])
        yield from _renaming(path, AdviceCause.NAME_OF_FIRST_BATCH(offsets=shown), files, moves, patient)


def _leftovers_back(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give a `.log` that a start would delete the name of its segment, which is not there. Of
    several for one segment it is the one with most of what is lost."""
    files, best = _files_of(point.path), dict[str, tuple[int, str]]()
    for name in files:
        plain = os.path.splitext(name)[0]
        if name.endswith(_LEFTOVERS) and plain not in files and parse_file_name(name).base_offset is not None:
            count = _count_in(files[name], point)
            if count > best.get(plain, (0, ""))[0]:
                best[plain] = count, name
    moves = {name: plain for plain, (_, name) in best.items()}
    if moves:
        title = AdviceCause.MAKE_SEGMENTS(names=" and ".join(moves))
        yield from _renaming(point.path, title, files, moves, patient)


def _count_in(file: DraftFile, point: Ahead) -> int:
    """Return how many offsets of sound batches of a log are in what a point tells."""
    first, last = point.first_offset or 0, -1 if point.last_offset is None else point.last_offset
    try:
        ranges = offsets_in_log(file.content).all.ranges
    except KlogError:
        return 0
    return sum(max(0, min(last, high) - max(first, low) + 1) for low, high in ranges)


def set_aside_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give segments their names back that somebody renamed, like `.log.bak`."""
    files = _files_of(point.path)
    logs = find_set_aside(files)
    cause = AdviceCause.SEGMENT_NAMES_OF_MORE if len(logs) > 3 else AdviceCause.SEGMENT_NAMES
    title = cause(names=" and ".join([*logs][:3]), more=len(logs) - 3)
    if logs:  # none if the files cannot be read any more
        yield from _renaming(point.path, title, files, logs | _in_capitals(files, logs), patient)
    yield from _refilling(point.path, files, find_emptied(files), patient)


def _in_capitals(files: Mapping[str, DraftFile], logs: Mapping[str, str]) -> dict[str, str]:
    """Return the other files of segments whose logs are in capitals, with the names that they had."""
    bases = {parse_file_name(plain).base_offset for name, plain in logs.items() if name.lower() == plain}
    names = ((name, parse_file_name(name.lower())) for name in files if name not in logs and name != name.lower())
    return {name: plain.name for name, plain in names if plain.base_offset in bases and plain.name not in files}


def _names_given_again(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield what to do about segments that are missing, or empty, beside a file with another end to its name."""
    files = _files_of(point.path)
    moves = _missing(find_set_aside(files), files, point)
    if moves:
        yield from _renaming(point.path, AdviceCause.SEGMENT_NAMES(names=" and ".join(moves)), files, moves, patient)


def _refilling(
    path: str, files: Mapping[str, DraftFile], emptied: Mapping[str, str], patient: Patient
) -> Iterator[Option]:
    """Yield what to do about segments that logrotate copied and emptied: the broker goes on behind zeros. emptied:
    copies beside empty files, and the names of these. What is compressed is unpacked by itself, and not measured."""
    copies = [*((old, new, False) for old, new in emptied.items())]
    copies += ((old, new, True) for old, new in find_blanked(files).items())
    after, commands = dict(files), list[Reason]()
    for old, new, is_over in copies:
        copy, log = os.path.join(path, old), os.path.join(path, new)
        if unpacked_size(old, files[old]) != files[old].size:
            command = unpacking_into(copy, log, over=is_over)
            if command is not None:
                yield by_hand(path, AdviceCause.BEFORE_THE_START(command=command), AdviceCause.PUT_BACK(name=old))
        elif is_over:
            rest = span_of(after[new].content, files[old].size, after[new].size)
            after[new] = DraftFile((*files[old].content, *rest))
            commands.append(CureCause.WRITE_OVER(copy=copy, path=log))
        else:
            after[new] = after.pop(old)
            commands.append(renaming(copy, log, over_empty=True))
    if commands:
        names = [old for old, _, _ in copies if unpacked_size(old, files[old]) == files[old].size]
        title, command = AdviceCause.PUT_BACK(name=" and ".join(names[:3])), in_turn(*commands)
        option = by_hand(path, AdviceCause.BEFORE_THE_START(command=command), title)
        yield priced(option, price_of_files(path, after, patient))


def _unpacking(point: Ahead) -> Iterator[Option]:
    """Yield what to do about segments that are missing, and that somebody seems to have compressed."""
    files = _files_of(point.path)
    for old in _missing(find_set_aside(files, packed=True), files, point):
        unpack = unpacking(os.path.join(point.path, old))
        if unpack is not None:
            yield by_hand(point.path, AdviceCause.BEFORE_THE_START(command=unpack), AdviceCause.UNPACK(name=old))


def _moving_up(point: Ahead) -> Iterator[Option]:
    """Yield what to do about segments that are missing, and that lie in a folder inside of the partition dir."""
    try:
        draft = Draft.of(point.path)
    except KlogError:
        return
    nested = find_nested_logs(draft.path, draft.folders, draft.before)
    for name in dict.fromkeys(os.path.dirname(path) for path in _missing(nested, draft.before, point)):
        move = CureCause.MOVE_UP(folder=os.path.join(point.path, name), path=point.path)
        yield by_hand(point.path, AdviceCause.BEFORE_THE_START(command=move), AdviceCause.MOVE_UP(name=name))


def _filling_from_copies(point: Ahead) -> Iterator[Option]:
    """Yield what to do about records that a segment lacks, and that a file beside it may have."""
    files = _files_of(point.path)
    blanked = find_blanked(files)
    for name, log in _missing(find_doubtful_copies(files, is_compacted=False), files, point).items():
        if log in files and files[log].size and name not in blanked:
            with ContentFile(name, files[name].content) as file:
                start = file.read(0, MOST_MAGIC_BYTES)
            command = filling_from_copy(os.path.join(point.path, name), log, start)
            if command is not None:
                yield by_hand(point.path, command, AdviceCause.FILL_FROM_FILE(name=name))


def _missing(copies: Mapping[str, str], names: Iterable[str], point: Ahead) -> dict[str, str]:
    """Return those of these files (with the names of segments) that may have what is missing."""
    ranges = [(point.first_offset or 0, -1 if point.last_offset is None else point.last_offset)]
    return {name: copies[name] for name in may_have(copies, names, ranges)}


def _renaming(
    path: str, title: Reason, files: Mapping[str, DraftFile], moves: Mapping[str, str], patient: Patient
) -> Iterator[Option]:
    """Yield the option to rename files of a partition dir."""
    price = price_of_files(path, {moves.get(name, name): file for name, file in files.items()}, patient)
    if price.readable is not None:  # else a broker does not load it
        inside = os.path.relpath(path, patient.log_dir_of(path))
        both = [(old, new) for old, new in moves.items()]
        edits = tuple(RenameFile(os.path.join(inside, old), os.path.join(inside, new)) for old, new in both)
        command = "; ".join(str(renaming(os.path.join(path, old), os.path.join(path, new))) for old, new in both)
        yield priced(mending(title, path, command, edits, patient), price)


def _walk_moves(files: Mapping[str, DraftFile]) -> Iterator[tuple[str, str]]:
    """Yield the files of segments with too high a name, and their right names. A file that has that name stays."""
    parsed = sorted((parse_file_name(name) for name in files), key=lambda file: file.base_offset or 0)
    logs = [file for file in parsed if file.kind is FileKind.LOG and not file.suffix and (file.base_offset or -1) >= 0]
    for log in logs:
        base = log.base_offset or 0
        with ContentFile(log.name, files[log.name].content) as file:
            first = first_offset_of(file)
        if first is None or first >= base or build_file_name(FileKind.LOG, first) in files:
            continue
        for kind in SEGMENT_KINDS:
            old, new = build_file_name(kind, base), build_file_name(kind, first)
            if old in files and new not in files:
                yield old, new


def _without_swaps(path: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to delete the `.swap` files that replace segments which have more."""
    files = _files_of(path)
    swaps = {name: os.path.join(path, name) for name in files if name.endswith(SWAP) and is_visible_to_java(name)}
    if swaps:
        edits = tuple(DeleteFile(os.path.relpath(file, patient.log_dir_of(path))) for file in swaps.values())
        command = f"rm {' '.join(map(quoted, swaps.values()))}"
        option = mending(AdviceCause.WITHOUT_SWAPS(), path, command, edits, patient)
        kept = {name: file for name, file in files.items() if name not in swaps}
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
    if point.path.endswith(SWAP):
        yield from _without_swaps(partition.path, patient)
    yield from _names_back(partition.path, patient)
    yield from _recovering(partition.path, patient)
    yield from salvage_options(partition.path, patient)


def gap_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for records that are gone: a file that somebody renamed, compressed, or copied to the wrong
    place; another replica; or to give them up."""
    yield from _names_given_again(point, patient)
    files = _files_of(point.path)
    yield from _refilling(point.path, files, _missing(find_emptied(files), files, point), patient)
    yield from _unpacking(point)
    yield from _filling_from_copies(point)
    yield from _moving_up(point)
    yield from moving_in_options(point, patient)
    yield replica_option(point.path)
    yield from _giving_up(point.path, patient)


def _giving_up(path: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to lower the lines of checkpoints that are beyond the log's end. They are what shows that
    records are missing, and a broker lowers them when it next writes these files."""
    log_dir, key = patient.log_dir_of(path), Partition(path).topic_partition
    question = RecoverQuestion(**asdict(patient.circumstances))
    plan = _decided(Remedy("recover", path, question))
    recovery = None if plan is None else plan.result
    if key is None or not isinstance(recovery, Recovery) or recovery.loses_records:
        return  # what is beyond the end may be in the files
    if recovery.behind_end is not None and recovery.behind_end.damage:
        return
    end, lines = recovery.log_end_offset, patient.checkpoints_of(path)
    beyond = [kind.value for kind in _WITNESSES if (lines.find_line(kind, key) or 0) > end]
    if beyond:
        edits = tuple(SetOffset(name, key.topic, key.partition, end) for name in beyond)
        old, new = (f"{topic} {key.partition}" for topic in (re.escape(key.topic), key.topic))
        files = " ".join(quoted(os.path.join(log_dir, name)) for name in beyond)
        command = AdviceCause.SED(script=quoted(f"s/^{old} [0-9]+$/{new} {end}/"), files=files)
        title = AdviceCause.GIVE_UP(files=" and ".join(beyond), end=end)
        option = mending(title, path, command, edits, patient, strategy=Strategy.AS_THE_BROKER)
        yield replace(option, erases_witness=True)


def replica_option(path: str) -> Option:
    """Return the option to fill a log from another copy. klogtool does not know where one is."""
    command = AdviceCause.SALVAGE_FROM_REPLICA(path=quoted(path))
    return Option(AdviceCause.FILL_FROM_REPLICA(), path, command, Strategy.NOTHING_LOST)


def salvage_options(path: str, patient: Patient, *, must_change_logs: bool = False) -> Iterator[Option]:
    """Yield salvage, if there is something to salvage and a broker loads the result."""
    remedy = Remedy("salvage", path, SalvageQuestion(**asdict(patient.circumstances)))
    plan = _decided(remedy, must_change_logs=must_change_logs)
    if plan is not None:
        rejects = isinstance(plan.result, SalvageResult) and plan.result.rejected
        strategy = Strategy.DAMAGED_ONLY if rejects else Strategy.NOTHING_LOST
        yield _planned(AdviceCause.SALVAGE(), salvage(path), remedy, plan, strategy, patient)


def _changes_logs(plan: Plan) -> bool:
    """Return whether a plan changes what logs have. To complete a swap changes none: damage in a `.swap` stays."""
    if isinstance(plan.result, Recovery):
        return bool(plan.result.truncated or plan.result.deleted_segments)
    return any(step.path.endswith(FileKind.LOG.value) for step in plan.steps)


def _recovering(path: str, patient: Patient, *, must_change_logs: bool = False) -> Iterator[Option]:
    question = RecoverQuestion(**asdict(replace(patient.circumstances, last_stop=UNCLEAN)))
    remedy = Remedy("recover", path, question)
    plan = _decided(remedy, must_change_logs=must_change_logs)
    if plan is not None:
        loses_records = isinstance(plan.result, Recovery) and plan.result.loses_records
        strategy = Strategy.AS_THE_BROKER if loses_records else Strategy.NOTHING_LOST
        title, command = AdviceCause.RECOVER_AS_UNCLEAN(), recover(path, UNCLEAN)
        yield _planned(title, command, remedy, plan, strategy, patient)


def _planned(
    title: Reason,
    command: Reason,
    remedy: Remedy,
    plan: Plan,
    strategy: Strategy,
    patient: Patient,
    lost_ms: int | None = None,
) -> Option:
    erases = _erases_witness(plan, patient)
    option = Option(title, remedy.path, command, strategy, None, lost_ms, remedies=(remedy,), erases_witness=erases)
    return priced(option, price_of(plan, patient))


def _erases_witness(plan: Plan, patient: Patient) -> bool:
    """Return whether a plan deletes what shows which offsets are gone, and nothing else does: an index without its
    `.log`, or a snapshot beyond the end."""
    if not isinstance(plan.result, Recovery | SalvageResult):
        return isinstance(plan.result, ErasedWitnesses)
    end, left = plan.result.log_end_offset, find_orphans(_files_of(plan.path)).values()
    deleted = {step.path for step in plan.steps if isinstance(step, Delete)}
    if not any(name in left or (parse_file_name(name).base_offset or 0) > end for name in deleted):
        return False
    recovering = _decided(Remedy("recover", plan.path, RecoverQuestion(**asdict(patient.circumstances))))
    recovery = None if recovering is None else recovering.result
    if not isinstance(recovery, Recovery):
        return False
    witnesses = [] if recovery.behind_end is None else recovery.behind_end.told_by
    erased = max((each.offset for each in witnesses if each.where in deleted), default=0)
    kept = max((each.offset for each in witnesses if each.where not in deleted), default=0)
    return erased > max(kept, end) or any(gap.told_by in deleted for gap in recovery.missing)


def rebuilding_options(path: str, only: str, patient: Patient) -> Iterator[Option]:
    """Yield the option to rebuild side files; salvage, which builds them anew, if the log is damaged. only: their
    kinds, joined by commas."""
    kinds: tuple[SideFile, ...] = tuple(kind for kind in KINDS if kind in only.split(","))
    remedy = Remedy("rebuild-index", path, RebuildIndexQuestion(**asdict(patient.circumstances), only=kinds))
    if (plan := _decided(remedy)) is not None:
        title = AdviceCause.REBUILD(kinds=" and ".join(f".{kind}" for kind in kinds))
        erases, command = _erases_witness(plan, patient), rebuild_index(path, only)
        yield Option(title, path, command, Strategy.NOTHING_LOST, remedies=(remedy,), erases_witness=erases)
    else:
        yield from salvage_options(path, patient)


def _files_of(path: str) -> Mapping[str, DraftFile]:
    """Return the files of a partition dir; none if some cannot be read, so that no plan can be made."""
    try:
        return Draft.of(path).before
    except KlogError:
        return {}


def _decided(remedy: Remedy, *, must_change_logs: bool = False) -> Plan | None:
    """Return the plan for a partition dir; None if the command refuses it, or `apply` would."""
    try:
        plans = decide(remedy.command, remedy.path, remedy.question)
        plan = next((plan for plan in plans if plan.path == remedy.path), None)
        if plan is None or touches_other(plan) or (must_change_logs and not _changes_logs(plan)):
            return None
        return plan
    except KlogError:
        return None
