"""Options for `__cluster_metadata-0`: a record that a start does not replay."""

from __future__ import annotations

import os
from collections.abc import Iterator

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.metadata.image import read_cluster_metadata
from klogtool.doctor.answers import Ahead, Option, Remedy, Strategy
from klogtool.doctor.patient import Patient
from klogtool.escape import quoted
from klogtool.plans.truncate import COMMAND as TRUNCATE
from klogtool.plans.truncate import TruncateQuestion
from klogtool.verify.verify_kraft import FROM_A_CONTROLLER

_FORGETS = "the cluster forgets what changed from this offset on; partitions that were created later become -stray"


def copy_option(folder: str) -> Option:
    """Return the option to take the folder from another controller. What its log lacks is not known here."""
    title = "take the copy of another controller"
    return Option(title, folder, FROM_A_CONTROLLER, Strategy.NOTHING_LOST, is_undone=False)


def replay_options(point: Ahead, patient: Patient) -> Iterator[Option]:
    """Yield the options for a record that does not replay: another copy, or the log without what begins with it."""
    folder = os.path.join(patient.log_dir_of(point.path), CLUSTER_METADATA_DIR)
    yield copy_option(folder)
    refusal = read_cluster_metadata(folder, patient.rules).refusal
    if refusal is None or refusal.offset is None:
        return
    question = TruncateQuestion(circumstances=patient.circumstances, to=refusal.offset)
    yield Option(
        f"cut the metadata log before offset {refusal.offset}",
        folder,
        f"klogtool truncate {quoted(folder)} --to {refusal.offset}",
        Strategy.AS_THE_BROKER,
        None,
        None,
        price=_FORGETS,
        remedies=(Remedy(TRUNCATE, folder, question),),
    )
