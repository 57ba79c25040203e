"""What an unclean stop means for the cluster: a broker without its previous epoch leaves the ISR and ELR (KIP-966)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from klogtool.doctor.cluster import Cluster
from klogtool.errors import KlogError
from klogtool.log.logdir import LogDir
from klogtool.verify.verify_checkpoints import has_clean_marker

_FEATURE = "eligible.leader.replicas.version"
_THEN = (
    "the controller takes this broker out of ISR and ELR, so a partition that only this broker has gets a leader by an "
    "unclean election"
)


def walk_unclean_notes(log_dirs: Sequence[str], cluster: Cluster) -> Iterator[str]:
    """Yield why a broker registers without its previous epoch, if the cluster has eligible leader replicas."""
    features = {} if cluster.metadata is None else cluster.metadata.features
    if features.get(_FEATURE, 0) < 1:
        return
    unclean = [path for path in log_dirs if not has_clean_marker(LogDir(path))]
    epochs = set(map(_broker_epoch, log_dirs))
    if unclean:
        yield f"no clean shutdown marker in {', '.join(unclean)}: {_THEN}"
    elif len(epochs) > 1 or None in epochs:
        yield f"the clean shutdown markers have no broker epoch, or different ones: {_THEN}"


def _broker_epoch(path: str) -> int | None:
    try:
        marker = LogDir(path).clean_shutdown
    except KlogError:  # it counts all the same, and has no epoch
        return None
    return None if marker is None else marker.broker_epoch
