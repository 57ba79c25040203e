"""What a broker's server.properties says of its log dirs, and where the disks contradict it.

The settings are those before the first section of --config-file. Log dirs that are named win over the file's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from klogtool.broker.circumstances import METADATA_LOG_DIR, Circumstances
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.config import fitting, provided_names
from klogtool.broker.releases import Rules, rules_of
from klogtool.broker.server_rules import find_foreign_classes, find_refusals
from klogtool.broker.server_settings import ROLES, listed
from klogtool.causes import Reason
from klogtool.doctor.absent import named_twice
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause, NoteCause, few_names
from klogtool.doctor.exceptions import stop_at
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.quorum.settings import OF_QUORUM, find_node_id
from klogtool.verify.stops import refuses

LISTS = ("log.dirs", "log.dir")  # the first wins


def without_unfit(circumstances: Circumstances) -> tuple[Circumstances, Mapping[str, str]]:
    """Return the circumstances without settings of the broker that have the wrong type, and these settings. A process
    ends at them; what it would do to the logs otherwise is judged without."""
    sections = tuple(
        (pattern, fitting(settings) if pattern is None else settings)
        for pattern, settings in circumstances.config_sections
    )
    fit = replace(circumstances, config_sections=sections)
    unfit = circumstances.server_settings.items() - fit.server_settings.items()
    return fit, dict(unfit)


def walk_server_points(
    log_dirs: Sequence[str], circumstances: Circumstances, unfit: Mapping[str, str]
) -> Iterator[Ahead]:
    """Yield what stops a broker with these settings on these log dirs. unfit: those that the circumstances lack."""
    settings = {**circumstances.server_settings, **unfit}
    node_id = find_node_id(settings)
    if node_id is not None:
        yield from _other_nodes(log_dirs, node_id)
    rules = rules_of(circumstances.kafka)
    yield from _refused(log_dirs, settings, rules)
    yield from _twice_in_list(log_dirs, settings, rules)
    yield from _names_of_one(log_dirs, circumstances.log_dirs)
    yield from _metadata_elsewhere(log_dirs, circumstances)


def walk_server_notes(log_dirs: Sequence[str], circumstances: Circumstances) -> Iterator[Reason]:
    """Yield what of the file klogtool does not know, and where the named log dirs are not those of the file."""
    used = {*LISTS, METADATA_LOG_DIR, *OF_QUORUM}
    if unknown := sorted(used & provided_names(circumstances.server_settings)):
        yield NoteCause.PROVIDED(names=tuple(unknown))
    if foreign := find_foreign_classes(circumstances.server_settings):
        yield NoteCause.FOREIGN_CLASSES(names=tuple(foreign))
    wanted, named = set(map(_real, circumstances.log_dirs)), set(map(_real, log_dirs))
    if wanted and (left := sorted(wanted - named)):
        yield NoteCause.NOT_NAMED(paths=tuple(left))
    if wanted and (more := sorted(named - wanted)):
        yield NoteCause.NOT_IN_FILE(paths=tuple(more))


def _other_nodes(log_dirs: Sequence[str], node_id: str) -> Iterator[Ahead]:
    for log_dir in log_dirs:
        try:
            identity = LogDir(log_dir).meta_properties
        except KlogError:  # reported by itself
            continue
        if identity is None or identity.node_id is None or str(identity.node_id) == node_id:
            continue
        path = os.path.join(log_dir, FileKind.META_PROPERTIES.value)
        stop = stop_at("other-node-id", node=identity.node_id, wanted=node_id, path=path)
        detail = AheadCause.OTHER_NODE(node=identity.node_id, wanted=node_id)
        cure = AdviceCause.SET_NODE_ID(node=identity.node_id)
        yield Ahead(path, What.REFUSES, detail, stop=stop, cure=cure)


def _refused(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield the settings that end the process before it reads a log: with the message of the first, as it has no time
    for another one."""
    refused = find_refusals(settings, rules)
    if refused:
        first, names = refused[0], few_names(list(dict.fromkeys(one.setting for one in refused)))
        cure = _CURES.get(first.setting, AdviceCause.CORRECT_SETTING)(name=names)
        stop = refuses(str(first.kafka_class), first.reason)
        yield Ahead(log_dirs[0], What.REFUSES, AheadCause.SETTING_REFUSED(name=names), stop=stop, cure=cure)


_CURES = dict.fromkeys(LISTS, AdviceCause.CORRECT_LIST) | {ROLES: AdviceCause.CORRECT_ROLES}


def _twice_in_list(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield the list with a log dir twice that ends the process (LogManager)."""
    name = next((name for name in LISTS if name in settings), "")
    if rules.checks_lists or not name or name in provided_names(settings):
        return
    dirs = list(filter(None, listed(settings, name)))
    if len(dirs) > len(set(dirs)):
        stop = stop_at("log-dir-twice", log_dirs=", ".join(map(os.path.abspath, dirs)))
        cure = AdviceCause.CORRECT_LIST(name=name)
        yield Ahead(log_dirs[0], What.REFUSES, AheadCause.LOG_DIR_TWICE(name=name), stop=stop, cure=cure)


def _names_of_one(log_dirs: Sequence[str], names: Sequence[str]) -> Iterator[Ahead]:
    """Yield names that a broker takes for two log dirs, since it compares them as texts (MetaPropertiesEnsemble)."""
    first: dict[str, str] = {}
    for name in names:
        path = os.path.abspath(name)
        if first.setdefault(path, name) != name and path in log_dirs:
            cure = AdviceCause.ONE_NAME(first=quoted(first[path]), name=quoted(name))
            yield replace(named_twice(name, first[path], names), cure=cure)


def _metadata_elsewhere(log_dirs: Sequence[str], circumstances: Circumstances) -> Iterator[Ahead]:
    """Yield a metadata log outside of its log dir (KafkaRaftServer.initializeLogDirs). By default that is the first of
    the log dirs. A log dir that the file does not have is not looked at by the broker: it may be a copy."""
    own = circumstances.metadata_log_dir
    read = set(map(_real, circumstances.log_dirs))
    for log_dir in log_dirs:
        path = os.path.join(log_dir, CLUSTER_METADATA_DIR)
        if own is not None and os.path.isdir(path) and _real(log_dir) in read - {_real(own)}:
            stop = stop_at("metadata-elsewhere", path=path, log_dir=own)
            cure = AdviceCause.SET_METADATA_LOG_DIR(path=quoted(log_dir))
            yield Ahead(path, What.REFUSES, AheadCause.METADATA_ELSEWHERE(log_dir=own), stop=stop, cure=cure)


def _real(path: str) -> str:
    return os.path.realpath(path)
