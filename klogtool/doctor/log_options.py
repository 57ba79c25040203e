"""Options for a log that recovery cuts, that ends too early, or that a broker does not load.

Each option is decided here, over a draft, so its loss is measured. An option that no decision accepts is not offered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from klogtool.broker.circumstances import CLEAN, UNCLEAN, Checkpoints, Stop
from klogtool.doctor.answers import Ahead, Option, Remedy, Strategy
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.log.partition import Partition
from klogtool.plans.decisions import decide
from klogtool.plans.mend import COMMAND as MEND
from klogtool.plans.mend import MendQuestion, SetOffset
from klogtool.plans.plan import Plan
from klogtool.plans.rebuild_index import KINDS, RebuildIndexQuestion, SideFile
from klogtool.plans.recover_log_dir import RecoverQuestion
from klogtool.plans.salvage import SalvageQuestion
from klogtool.verify.cures import rebuild_index, recover, salvage
from klogtool.verify.verify_names import METADATA_TOPIC

_NEVER_BEYOND = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.CLEANER_CHECKPOINT)
_BROKERS_WAY = "as the broker does it"


def cut_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a log that recovery cuts: salvage, another replica, the broker's way."""
    yield from salvage_options(point.path, patient)
    yield replica_option(point.path)
    question = RecoverQuestion(circumstances=patient.circumstances)
    lowered = () if point.first_offset is None else _lowering(point.path, patient, point.first_offset)
    yield Option(
        _BROKERS_WAY,
        point.path,
        recover(point.path),
        Strategy.AS_THE_BROKER,
        point.lost_records or None,  # records are lost; if none was counted, nobody knows how many
        point.lost_ms if point.lost_records else None,
        remedies=(Remedy("verify --recover", point.path, question), *lowered),
    )


def early_end_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a log whose clean marker is false: a recovery in spite of it, salvage, another replica."""
    yield from _recovering(point, patient, UNCLEAN)
    yield from salvage_options(point.path, patient)
    yield replica_option(point.path)


def loading_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a partition that a broker does not load: what makes it loadable, tried in memory."""
    partition = patient.partition_of(point.path)
    if not os.path.isdir(partition.path) or partition.topic == METADATA_TOPIC:
        return
    if point.path.endswith(FileKind.TXN_INDEX.value):
        yield from rebuilding_options(partition.path, "txnindex", patient)
    yield from _recovering(replace(point, path=partition.path), patient, UNCLEAN)
    yield from salvage_options(partition.path, patient)


def gap_options(point: Ahead) -> Iterator[Option]:
    """Yield the option for records that are gone."""
    yield replica_option(point.path)


def replica_option(path: str) -> Option:
    """Return the option to fill a log from another copy. klogtool does not know where one is."""
    return Option(
        "fill it from another replica's copy COPY",
        path,
        f"klogtool salvage {quoted(path)} --replica COPY --output DIR",
        Strategy.NOTHING_LOST,
        None,
        None,
    )


def salvage_options(path: str, patient: Patient) -> Iterator[Option]:
    """Yield salvage, if there is something to salvage and a broker loads the result."""
    question = SalvageQuestion(circumstances=patient.circumstances)
    plan = _decided("salvage", path, question)
    if plan is not None:
        yield Option(
            "salvage: keep all sound batches",
            path,
            salvage(path),
            Strategy.DAMAGED_ONLY if plan.answer["rejected"] else Strategy.NOTHING_LOST,
            _offsets_lost(plan.answer),
            None,
            remedies=(Remedy("salvage", path, question), *_lowering(path, patient, plan.answer["log_end_offset"])),
        )


def _lowering(path: str, patient: Patient, end: int) -> Iterator[Remedy]:
    """Yield the remedy that lowers the partition's lines in checkpoints to the end that its log will have.

    A broker does the same when it next writes these files."""
    log_dir, key = patient.log_dir_of(path), Partition(path).topic_partition
    lines = Checkpoints(log_dir)
    edits = tuple(
        SetOffset(kind.value, key.topic, key.partition, end)
        for kind in _NEVER_BEYOND
        if key is not None and (lines.find_line(kind, key) or 0) > end
    )
    if edits:
        yield Remedy(MEND, log_dir, MendQuestion(circumstances=patient.circumstances, edits=edits))


def _offsets_lost(answer: Mapping[str, Any]) -> int | None:
    """Return how many offsets salvage cannot keep; None if nothing shows where they end."""
    lost = [loss for loss in answer["lost"] if loss["first_offset"] is not None]
    if any(loss["last_offset"] is None for loss in lost):
        return None
    return sum(int(loss["last_offset"]) - int(loss["first_offset"]) + 1 for loss in lost)


def _recovering(point: Ahead, patient: Patient, last_stop: Stop) -> Iterator[Option]:
    question = RecoverQuestion(circumstances=replace(patient.circumstances, last_stop=last_stop))
    plan = _decided("verify --recover", point.path, question)
    if plan is None:
        return
    loses = plan.answer["loses_records"]
    yield Option(
        f"recover it as after {'an unclean' if last_stop != CLEAN else 'a clean'} stop",
        point.path,
        recover(point.path, last_stop),
        Strategy.AS_THE_BROKER if loses else Strategy.NOTHING_LOST,
        _span(plan.answer["lost"]) if loses else 0,
        None if loses else 0,
        remedies=(
            Remedy("verify --recover", point.path, question),
            *_lowering(point.path, patient, plan.answer["log_end_offset"]),
        ),
    )


def _span(lost: Mapping[str, int] | None) -> int | None:
    return None if lost is None else lost["last_offset"] - lost["first_offset"] + 1


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


def _decided(command: str, path: str, question: Any) -> Plan | None:
    """Return the plan for a partition dir; None if the command refuses it."""
    try:
        return next((plan for plan in decide(command, path, question) if plan.path == path), None)
    except KlogError:
        return None
