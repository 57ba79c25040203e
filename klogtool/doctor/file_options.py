"""Options that change small files and names: what identifies log dirs and partitions, checkpoints, folders in the way.

Nothing is deleted for good: what an edit removes is kept for undo.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from msgspec.structs import asdict, replace

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import replays_without_newest_snapshot
from klogtool.causes import Reason, Text
from klogtool.doctor.absent_partitions import Expected, has_all_of, is_blocked, walk_expected
from klogtool.doctor.answers import Ahead, Effect, Option, Remedy, Strategy, What, by_hand
from klogtool.doctor.causes import AdviceCause
from klogtool.doctor.claims import Lost
from klogtool.doctor.log_dirs import walk_promoted, walk_replaced
from klogtool.doctor.metadata_options import quorum_options, replay_options
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.checkpoints import parse_offset_checkpoint
from klogtool.format.names import (
    METADATA_TOPIC,
    OFFSET_CHECKPOINTS,
    FileKind,
    build_file_name,
    parse_file_name,
    parse_partition_dir_name,
)
from klogtool.format.uuids import METADATA_TOPIC_ID, build_uuid
from klogtool.log.file import read_whole
from klogtool.log.log_dirs import is_log_dir
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.plans.mend import COMMAND, DeleteFile, Edit, MendQuestion, MoveFolder, RenameFile, SetOffset, WriteFile
from klogtool.plans.rebuild_index import COMMAND as REBUILD
from klogtool.plans.rebuild_index import RebuildIndexQuestion
from klogtool.verify.cures import (
    FROM_A_CONTROLLER,
    exchanging,
    move_out,
    parent_of,
    rebuild_index,
    renaming,
    write_lines,
)
from klogtool.verify.findings import Kind
from klogtool.verify.identity import CureKind, IdentityCure, cures_of, without_set_aside
from klogtool.verify.identity_cures import (
    MOST_PROPERTIES_BYTES,
    drop_directory_id,
    find_topic_id,
    meta_properties_lines,
    read_topic_id,
)
from klogtool.verify.misplaced import find_misplaced
from klogtool.verify.verify_kraft import verify_kraft_snapshot
from klogtool.verify.verify_log_dirs import DIRECTORY_ID, find_immovable, worse_and_better
from klogtool.verify.verify_voters import lost_directory_id, with_directory_id

OptionsOf: TypeAlias = Callable[[Ahead, Patient], Iterator[Option]]
_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
_PRICES = {
    FileKind.RECOVERY_POINT_CHECKPOINT.value: AdviceCause.LONG_RECOVERY,
    FileKind.LOG_START_CHECKPOINT.value: AdviceCause.READABLE_AGAIN,
    FileKind.CLEANER_CHECKPOINT.value: AdviceCause.LONG_CLEANING,
}


def mending(
    title: Reason,
    path: str,
    command: Text,
    edits: tuple[Edit, ...],
    patient: Patient,
    *,
    strategy: Strategy = Strategy.NOTHING_LOST,
    price: Text = "",
) -> Option:
    """Return an option that edits files of the log dir that a path is in."""
    log_dir = patient.log_dir_of(path)
    question = MendQuestion(**asdict(patient.circumstances), log_dir=log_dir, edits=edits)
    remedy = Remedy(COMMAND, log_dir, question)
    return Option(title, path, command, strategy, price=price, remedies=(remedy,))


def _naming(
    title: Reason, path: str, name: str, patient: Patient, strategy: Strategy = Strategy.NOTHING_LOST
) -> Option:
    """Return the option to give a folder of a log dir another name."""
    command = renaming(path, os.path.join(patient.log_dir_of(path), name))
    return mending(title, path, command, (MoveFolder(_inside(path, patient), name),), patient, strategy=strategy)


def _writing_id(
    title: Reason,
    path: str,
    partition: Partition,
    topic_id: str,
    patient: Patient,
    strategy: Strategy = Strategy.NOTHING_LOST,
) -> Option:
    """Return the option to write partition.metadata."""
    file = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
    lines = ["version: 0", f"topic_id: {topic_id}"]
    edits = (WriteFile(_inside(file, patient), "\n".join(lines)),)
    return mending(title, path, write_lines(file, lines), edits, patient, strategy=strategy)


def _both(first: Option, then: Option) -> Option:
    """Return both as one option. Edits of one log dir become one plan, in this order."""
    command = AdviceCause.AFTER(first=first.command, then=then.command)
    return replace(then, command=command, remedies=(*first.remedies, *then.remedies))


def _losing_nothing(option: Option) -> Option:
    """Return an option whose edits leave all records where they are, and that no log is loaded by otherwise."""
    return replace(option, strategy=Strategy.NOTHING_LOST, lost=Lost(), lost_records=0, lost_ms=0)


def _inside(path: str, patient: Patient) -> str:
    return os.path.relpath(path, patient.log_dir_of(path))


# Folders.


def _foreign_folder(point: Ahead, patient: Patient) -> Iterator[Option]:
    if is_log_dir(point.path) and point.cure is not None:
        yield replace(by_hand(point.path, point.cure, AdviceCause.LOG_DIR_INSIDE()), lost=Lost(), lost_records=0)
    if _is_movable(point.path):  # else verify's cure says what to do
        option = move_away(AdviceCause.MOVE_OUT(), point.path, patient)
        yield replace(option, effect=Effect.KEEPS_ASIDE)


def _is_movable(path: str) -> bool:
    """Return whether klogtool can move a folder out of a log dir: neither a broker nor klogtool can lock a log dir that
    has a folder `.lock`."""
    return os.path.basename(path) != FileKind.LOCK.value and find_immovable(path) is None


def move_away(
    title: Reason,
    path: str,
    patient: Patient,
    strategy: Strategy = Strategy.NOTHING_LOST,
    before: tuple[Edit, ...] = (),
) -> Option:
    """Return the option to move a folder of a log dir beside the log dir. before: what goes with it."""
    log_dir = patient.log_dir_of(path)
    away = f"../{os.path.basename(log_dir)}.moved-out/{os.path.basename(path)}"
    edits = (*before, MoveFolder(_inside(path, patient), away))
    return mending(title, path, move_out(path, log_dir), edits, patient, strategy=strategy)


def _duplicate(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to move the worse of two copies away that a broker loads."""
    own = Partition(point.path)
    for twin in islice((twin for twin in _twins(own, patient) if not _is_set_aside(twin, patient)), 1):
        yield from _of_two(own.path, twin, patient)


def _of_two(own: str, twin: str, patient: Patient, *, is_older_topic: bool = False) -> Iterator[Option]:
    """Yield the option to move the worse copy away. It may have records that the other one lacks. If a start sets the
    better copy aside, that gets the topic id that the cluster has. is_older_topic: of both the records may be those of
    an older topic."""
    worse, better = worse_and_better(*sorted((own, twin)))  # so that the points of both have the same option
    is_kept = has_all_of(Partition(better), Partition(worse))
    title = (AdviceCause.COPY_AWAY if is_kept else AdviceCause.SHORTER_COPY_AWAY)(other=quoted(better))
    is_last = patient.log_dir_of(worse) != patient.log_dir_of(better)
    lines = tuple(_dropped_lines(Partition(worse), patient)) if is_last else ()
    option = move_away(title, worse, patient, Strategy.MAY_DIVERGE, lines)
    option = _losing_nothing(option) if is_kept and not is_older_topic else option
    if not _is_set_aside(better, patient):
        yield option
    else:
        written = _write_topic_id(Partition(better), better, patient, option.strategy)
        yield from (_both(first, option) for first in written)


def _is_set_aside(path: str, patient: Patient) -> bool:
    return not without_set_aside([Partition(path)], patient.log_dirs)


def _has_topic_id(path: str) -> bool:
    return os.path.lexists(os.path.join(path, FileKind.PARTITION_METADATA.value))


def _twins(own: Partition, patient: Patient) -> Iterator[str]:
    """Yield the other folders of a partition, as far as they are in the same state."""
    key = own.topic_partition, own.state
    yield from (p.path for p in patient.partitions() if (p.topic_partition, p.state) == key and p.path != own.path)


def _dropped_lines(partition: Partition, patient: Patient) -> Iterator[Edit]:
    """Yield the edits that drop the lines of a partition from the checkpoints of its log dir."""
    key, lines = partition.topic_partition, Checkpoints(patient.log_dir_of(partition.path))
    for kind in OFFSET_CHECKPOINTS:
        if key is not None and lines.find_line(kind, key) is not None:
            yield SetOffset(kind.value, key.topic, key.partition)


def identity_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options to give a folder one identity: the name of its id, or the id of its name."""
    partition = Partition(point.path)
    topic_id = read_topic_id(partition)
    if topic_id is None:
        return
    identity = patient.cluster.topics.judge(partition.topic or "", topic_id)
    for cure in cures_of(partition, identity, patient.folders_of):
        yield replace(
            _identity_option(partition, cure, patient),
            strategy=Strategy.NOTHING_LOST if cure.is_proved else Strategy.MAY_DIVERGE,
        )


def _identity_option(partition: Partition, cure: IdentityCure, patient: Patient) -> Option:
    own, name = partition.path, cure.value
    match cure.kind:
        case CureKind.WRITE_ID:
            return _writing_id(AdviceCause.WRITE_ID(topic=str(partition.topic)), own, partition, name, patient)
        case CureKind.EXCHANGE:
            # In one order, so that two troubles with the same two folders have the same edits.
            first, second = sorted((own, os.path.join(patient.log_dir_of(own), name)))
            one, other = _inside(first, patient), _inside(second, patient)
            between = f"{one}.{'0' * 32}-stray"
            moves = (MoveFolder(one, between), MoveFolder(other, one), MoveFolder(between, other))
            return mending(AdviceCause.EXCHANGE(name=name), own, exchanging(first, second), moves, patient)
        case CureKind.RENAME:
            return _naming(AdviceCause.RENAME(name=name), own, name, patient)


def rename_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give a folder the name of the partition that it is: by its topic id, without a suffix."""
    partition = Partition(point.path)
    topic_id = read_topic_id(partition)
    topic = None if topic_id is None else patient.cluster.topic_of(topic_id)
    plain = f"{topic}-{partition.partition}"
    if topic is not None and not os.path.lexists(os.path.join(patient.log_dir_of(point.path), plain)):
        yield _naming(AdviceCause.RENAME(name=plain), point.path, plain, patient)


def absent_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give a folder that was set aside its name back. An emptier folder of that name is moved out
    of the log dir first, or a file. If there is none, only a copy from elsewhere helps."""
    yield from moving_in_options(point, patient)
    same_name = (each for each in walk_expected(patient) if str(each.key) == os.path.basename(point.path))
    expected = next(same_name, None)
    if expected is not None and expected.aside is not None:
        option = _put_back(expected.aside, expected, patient)
    else:
        command = AdviceCause.COPY_FOLDER(path=quoted(point.path))
        option = Option(AdviceCause.PUT_COPY(), point.path, command, Strategy.NOTHING_LOST)
    if is_blocked(point.path):
        away = move_out(point.path, patient.log_dir_of(point.path))
        command = AdviceCause.AFTER(first=away, then=option.command)
        option = replace(option, command=command, is_undone=False, remedies=())
    yield option


def moving_in_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield what to do about segments that are missing, and that lie in the log dir itself."""
    name, log_dir = os.path.basename(point.path), patient.log_dir_of(point.path)
    for misplaced in find_misplaced(map(LogDir, patient.log_dirs)):
        if (misplaced.log_dir, misplaced.of) == (log_dir, (name,)):
            yield by_hand(point.path, AdviceCause.BEFORE_THE_START(command=misplaced.cure), AdviceCause.MOVE_IN())


def _put_back(aside: Partition, expected: Expected, patient: Patient) -> Option:
    plain, topic_id = str(expected.key), read_topic_id(aside)
    title = AdviceCause.NAME_BACK(folder=os.path.basename(aside.path), name=plain)
    is_own = topic_id in (None, expected.topic_id)
    strategy = Strategy.NOTHING_LOST if is_own else Strategy.MAY_DIVERGE
    option = _naming(title, aside.path, plain, patient, strategy)
    if topic_id != expected.topic_id:
        option = _both(_writing_id(title, aside.path, aside, expected.topic_id, patient), option)
    if expected.current is not None:
        is_kept = has_all_of(aside, expected.current)
        option = replace(option, price="" if is_kept else AdviceCause.NOT_IN_IT_THEN(name=plain))
        option = _both(move_away(title, expected.current.path, patient), option)
    return option


def future_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to make a -future folder the partition itself."""
    name = parse_partition_dir_name(os.path.basename(point.path))
    yield _naming(AdviceCause.MAKE_PARTITION(), point.path, f"{name.topic}-{name.partition}", patient)


def future_away_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to move a -future folder away that a start puts in the place of its partition. It may have
    records that the partition lacks."""
    for future in walk_promoted(patient, Partition(point.path)):
        for current in walk_replaced(future, patient):
            title, is_kept = AdviceCause.FUTURE_AWAY(other=quoted(current.path)), has_all_of(current, future)
            strategy = Strategy.NOTHING_LOST if is_kept else Strategy.MAY_DIVERGE
            option = move_away(title, future.path, patient, strategy)
            yield _losing_nothing(option) if is_kept else option


# meta.properties.


def _meta_properties(point: Ahead, patient: Patient) -> Iterator[Option]:
    if _is_directory_id(point):
        log_dirs = [LogDir(path) for path in patient.log_dirs]
        known = lost_directory_id(patient.log_dir_of(point.path), log_dirs, patient.cluster.node_id)
        if known is None:
            yield from _without_directory_id(point, patient)
        else:
            yield _with_directory_id(point, patient, known)
        return
    lines = meta_properties_lines(point.path, [LogDir(path) for path in patient.log_dirs])
    if lines is not None:
        text = "".join(f"{line}\n" for line in lines)
        edits = (WriteFile(_inside(point.path, patient), text),)
        option = mending(AdviceCause.WRITE_META(), point.path, write_lines(point.path, lines), edits, patient)
        yield _losing_nothing(option)


def _conflict(point: Ahead, patient: Patient) -> Iterator[Option]:
    if _is_directory_id(point):
        yield from _without_directory_id(point, patient)


def _is_directory_id(point: Ahead) -> bool:
    return point.finding is not None and point.finding.field == DIRECTORY_ID


def _without_directory_id(point: Ahead, patient: Patient) -> Iterator[Option]:
    command = drop_directory_id(point.path)
    edits = (WriteFile(_inside(point.path, patient), _other_lines(point.path)),)
    option = mending(AdviceCause.DROP_DIRECTORY_ID(), point.path, command, edits, patient)
    # A controller of a dynamic quorum does not vote with another id.
    has_metadata = patient.log_dir_of(point.path) == patient.cluster.metadata_dir
    yield option if has_metadata else _losing_nothing(option)


def _other_lines(path: str) -> str:
    """Return meta.properties without its directory.id."""
    text = read_whole(path, limit=MOST_PROPERTIES_BYTES).decode("utf-8", "surrogateescape")
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("directory.id"))


def _with_directory_id(point: Ahead, patient: Patient, directory_id: str) -> Option:
    kept = _other_lines(point.path)
    text = f"{kept}{'' if kept.endswith(chr(10)) or not kept else chr(10)}directory.id={directory_id}\n"
    edits = (WriteFile(_inside(point.path, patient), text),)
    command = with_directory_id(point.path, directory_id)
    return mending(AdviceCause.WRITE_DIRECTORY_ID(directory_id=directory_id), point.path, command, edits, patient)


def _voter(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to write the id back with which this node votes, if that is what is wrong."""
    metadata = patient.cluster.metadata
    voter = None if metadata is None else metadata.quorum.voter(patient.cluster.node_id)
    if voter is not None and point.what is What.NOT_VOTER:
        yield _with_directory_id(point, patient, voter.directory_id)
        yield from quorum_options(replace(point, cure=None), patient)


# Checkpoints and other files of a log dir.


def _checkpoint(point: Ahead, patient: Patient) -> Iterator[Option]:
    name = os.path.basename(point.path)
    option = deletion(point.path, patient, _PRICES.get(name, AdviceCause.NOTHING_IN_SYNC))
    # After an unclean stop a recovery without recovery points reads all, and cuts at damage that it would not have met.
    is_measured = name != FileKind.RECOVERY_POINT_CHECKPOINT.value or _is_clean(patient.log_dir_of(point.path))
    yield _losing_nothing(option) if is_measured else option


def _is_clean(log_dir: str) -> bool:
    try:
        return LogDir(log_dir).clean_shutdown is not None
    except KlogError:
        return False


def deletion(path: str, patient: Patient, price: AdviceCause) -> Option:
    """Return the option to delete a file that a broker makes again."""
    edits = (DeleteFile(_inside(path, patient)),)
    command = AdviceCause.REMOVE(path=quoted(path), price=price())
    title = AdviceCause.DELETE(name=os.path.basename(path))
    return mending(title, path, command, edits, patient, price=price())


def log_start_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to drop the line of a log start that is above the log's end."""
    partition = patient.partition_of(point.path)
    name = FileKind.LOG_START_CHECKPOINT.value
    path = os.path.join(patient.log_dir_of(point.path), name)
    try:
        offsets = parse_offset_checkpoint(read_whole(path, limit=MOST_TEXT_BYTES))
    except KlogError:
        return
    key = partition.topic_partition
    if key is None or key not in offsets:
        return
    edits = (SetOffset(name, key.topic, key.partition),)
    command = AdviceCause.SED_DROP_LINE(
        topic=key.topic, partition=key.partition, lines=len(offsets) - 1, path=quoted(path)
    )
    price = AdviceCause.PURPOSELY_DELETED()
    yield mending(AdviceCause.DROP_LINE(name=name), point.path, command, edits, patient, price=price)


# Files of a partition.


def _in_place_of_file(point: Ahead, patient: Patient) -> Iterator[Option]:
    is_folder = os.path.isdir(point.path) and parent_of(point.path) == patient.log_dir_of(point.path)
    if is_folder and _is_movable(point.path):
        yield move_away(AdviceCause.MOVE_OUT(), point.path, patient)


def _kraft_snapshot(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the deletion of a snapshot, if the log or an older snapshot has all that it had: only then verify has a
    command."""
    if point.cure not in (None, FROM_A_CONTROLLER):
        yield deletion(point.path, patient, AdviceCause.SAME_RECORDS)


def _replay(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a record of the metadata that does not replay. Where it misses what a damaged snapshot has
    lost, and the log has all of it, it is the snapshot that goes: cutting the log would forget the rest as well."""
    snapshots = Partition(os.path.join(patient.log_dir_of(point.path), CLUSTER_METADATA_DIR)).kraft_snapshots
    is_damaged = bool(snapshots) and any(verify_kraft_snapshot(snapshots[-1].path))
    if is_damaged and replays_without_newest_snapshot(os.path.dirname(snapshots[-1].path), patient.rules):
        yield deletion(snapshots[-1].path, patient, AdviceCause.SAME_RECORDS)
    else:
        yield from replay_options(point, patient)


def _partition_metadata(point: Ahead, patient: Patient) -> Iterator[Option]:
    yield from _write_topic_id(patient.partition_of(point.path), point.path, patient, Strategy.NOTHING_LOST)


def stray_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give a partition the topic id that the cluster has. With another id before, the records may
    be those of an older topic of that name: beside the partition itself such a folder is moved away. Beside another
    copy the id would make two of it: then the worse one is to be moved away."""
    partition, has_other = Partition(point.path), _has_topic_id(point.path)
    twins = list(_twins(partition, patient))
    loaded = [twin for twin in twins if not _is_set_aside(twin, patient)]
    if has_other and (loaded or not partition.state.is_current):
        is_elsewhere = loaded and patient.log_dir_of(loaded[0]) != patient.log_dir_of(point.path)
        lines = tuple(_dropped_lines(partition, patient)) if is_elsewhere else ()
        yield _losing_nothing(move_away(AdviceCause.MOVE_OUT(), point.path, patient, before=lines))
        return
    like_it = [twin for twin in twins if _has_topic_id(twin) == has_other]
    for twin in (loaded or like_it)[:1]:
        yield from _of_two(point.path, twin, patient, is_older_topic=has_other)
    if not loaded and not like_it:
        strategy = Strategy.MAY_DIVERGE if has_other else Strategy.NOTHING_LOST
        yield from _write_topic_id(partition, point.path, patient, strategy)


def _write_topic_id(partition: Partition, path: str, patient: Patient, strategy: Strategy) -> Iterator[Option]:
    metadata = patient.cluster.metadata
    topic = partition.topic or ""
    known = None if metadata is None else metadata.topic_ids.get(topic)
    known = build_uuid(METADATA_TOPIC_ID) if topic == METADATA_TOPIC else known
    topic_id = known or (find_topic_id(topic, patient.partitions()) if metadata is None else None)
    if topic_id is not None and topic_id != read_topic_id(partition):
        title = AdviceCause.WRITE_TOPIC_ID(topic=topic)
        yield _writing_id(title, path, partition, topic_id, patient, strategy)


def _segment_name(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the option to give a segment its right name, if that is free; else one that a broker leaves alone."""
    folder, name = os.path.split(point.path)
    base_offset = parse_file_name(name).base_offset
    right = None if base_offset is None else build_file_name(FileKind.LOG, base_offset)
    is_free = right is not None and not os.path.lexists(os.path.join(folder, right))
    to = os.path.join(folder, right if is_free and right is not None else f"{name}.set-aside")
    edits = (RenameFile(_inside(point.path, patient), _inside(to, patient)),)
    title = (AdviceCause.RENAME if is_free else AdviceCause.RENAME_ASIDE)(name=os.path.basename(to))
    yield mending(title, point.path, renaming(point.path, to), edits, patient)


def _leader_epochs(point: Ahead, patient: Patient) -> Iterator[Option]:
    path = patient.partition_of(point.path).path
    question = RebuildIndexQuestion(**asdict(patient.circumstances), only=("leader-epoch-checkpoint",))
    remedies, command = (Remedy(REBUILD, path, question),), rebuild_index(path, _EPOCHS)
    yield Option(AdviceCause.REBUILD_EPOCHS(), point.path, command, Strategy.NOTHING_LOST, remedies=remedies)


OPTIONS_BY_FINDING: Mapping[Kind | None, OptionsOf] = {
    Kind.FOREIGN_FOLDER: _foreign_folder,
    Kind.DUPLICATE_PARTITION: _duplicate,
    Kind.UNREADABLE: _in_place_of_file,
    Kind.META_PROPERTIES_MISSING: _meta_properties,
    Kind.META_PROPERTIES_CORRUPT: _meta_properties,
    Kind.META_PROPERTIES_CONFLICT: _conflict,
    Kind.CHECKPOINT_CORRUPT: _checkpoint,
    Kind.KRAFT_SNAPSHOT_CORRUPT: _kraft_snapshot,
    Kind.QUORUM_STATE_CORRUPT: lambda point, patient: iter((deletion(point.path, patient, AdviceCause.NEW_ELECTION),)),
    Kind.METADATA_REPLAY: _replay,
    Kind.QUORUM_VOTER: _voter,
    Kind.PARTITION_METADATA_CORRUPT: _partition_metadata,
    Kind.TOPIC_ID_MISMATCH: _partition_metadata,
    Kind.EPOCHS_CORRUPT: _leader_epochs,
    Kind.SEGMENT_NAME: _segment_name,
}
