"""Whether a broker treats a partition as stray at its start: it renames the folder, and creates an empty partition."""

from __future__ import annotations

import os

from klogtool.broker.circumstances import Checkpoints
from klogtool.format.names import METADATA_TOPIC, FileKind
from klogtool.log.folder import find_partition_dir_name, own_name


def why_stray(path: str, beside: Checkpoints) -> str | None:
    """Return why a broker does so with the partition dir `path`, or None if nothing shows that. beside: checkpoints of
    its log dir.

    A partition of a topic that the cluster no longer knows is stray too: this is how a topic goes that was deleted
    while the broker was down. That is reported in a note.
    """
    name = find_partition_dir_name(own_name(path))
    if name is None or not name.state.is_live or name.topic == METADATA_TOPIC or beside.log_dir is None:
        return None
    if os.path.lexists(os.path.join(path, FileKind.PARTITION_METADATA.value)) or not beside.knows_topic_ids:
        return None
    return "it has no partition.metadata, so a broker renames it and creates an empty partition"
