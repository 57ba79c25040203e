"""What a broker's server.properties says of its log dirs, and where the disks contradict it.

The settings are those before the first section of --config-file. Log dirs that are named win over the file's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.provided_settings import provided_names
from klogtool.broker.releases import Rules, rules_of
from klogtool.doctor.absent import named_twice
from klogtool.doctor.answers import Ahead, What
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.quorum.settings import (
    BOOTSTRAP_SERVERS,
    ROLES,
    VOTERS,
    QuorumSettings,
    find_node_id,
    used_settings,
)
from klogtool.quorum.settings import listed as listed_words
from klogtool.verify.stops import refuses

LISTS = ("log.dirs", "log.dir")  # the first wins
METADATA_LOG_DIR = "metadata.log.dir"


def walk_server_points(log_dirs: Sequence[str], circumstances: Circumstances) -> Iterator[Ahead]:
    """Yield what stops a broker with these settings on these log dirs."""
    settings = circumstances.server_settings
    node_id = find_node_id(settings)
    if node_id is not None:
        yield from _other_nodes(log_dirs, node_id)
    rules = rules_of(circumstances.kafka)
    yield from _wrong_quorum(log_dirs, settings, rules)
    yield from _wrong_lists(log_dirs, settings, rules)
    yield from _names_of_one(log_dirs, circumstances.log_dirs)
    yield from _metadata_elsewhere(log_dirs, circumstances)


def walk_server_notes(log_dirs: Sequence[str], circumstances: Circumstances) -> Iterator[str]:
    """Yield what of the file klogtool does not know, and where the named log dirs are not those of the file."""
    used = {*LISTS, METADATA_LOG_DIR, *used_settings(circumstances.server_settings)}
    if unknown := sorted(used & provided_names(circumstances.server_settings)):
        yield f"--config-file has {', '.join(unknown)} from a config provider: klogtool does not know the value"
    wanted, named = set(map(_real, circumstances.log_dirs)), set(map(_real, log_dirs))
    if wanted and (left := sorted(wanted - named)):
        yield f"--config-file has log dirs that are not named here: {', '.join(left)}"
    if wanted and (more := sorted(named - wanted)):
        yield f"log dirs that --config-file does not have: {', '.join(more)}; a broker with this file does not use them"


def _other_nodes(log_dirs: Sequence[str], node_id: str) -> Iterator[Ahead]:
    for log_dir in log_dirs:
        try:
            identity = LogDir(log_dir).meta_properties
        except KlogError:  # reported by itself
            continue
        if identity is None or identity.node_id is None or str(identity.node_id) == node_id:
            continue
        path = os.path.join(log_dir, FileKind.META_PROPERTIES.value)
        told = (
            f"Stored node id {identity.node_id} doesn't match previous node id {node_id} in {path}. If you moved your "
            "data, make sure your configured node id matches. If you intend to create a new node, you should remove "
            "all data in your data directories."
        )
        detail = f"it is of node {identity.node_id}, but the file of settings is of node {node_id}"
        cure = f"set node.id={identity.node_id} in the file of settings, if this is the right disk"
        yield _refusal(path, detail, "RuntimeException", told, cure)


def _wrong_quorum(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield the setting that ends the process before it reads a log."""
    try:
        QuorumSettings.of(settings, rules)
    except KlogError as error:
        cure = f"correct {ROLES}, node.id, {VOTERS} or {BOOTSTRAP_SERVERS} in the file of settings"
        detail = "the file of settings has no quorum that this process takes"
        yield _refusal(log_dirs[0], detail, error.kafka_class or "ConfigException", error.reason, cure)


def _wrong_lists(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield the list of log dirs that ends the process: ConfigDef.ValidList, and before it KafkaConfig and
    LogManager."""
    provided = provided_names(settings)
    known = {name: listed_words(settings, name) for name in LISTS if name in settings and name not in provided}
    if rules.checks_lists:
        for name, words in known.items():
            if not words:
                told = f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
                yield _wrong_list(log_dirs, name, "it has no log dir", "ConfigException", told)
            elif "" in words:
                told = f"Configuration '{name}' values must not be empty."
                yield _wrong_list(log_dirs, name, "it has an empty name", "ConfigException", told)
        return
    name = next((name for name in LISTS if name in settings), "")
    if name not in known:
        return
    dirs = list(filter(None, known[name]))
    if not dirs:
        told = "requirement failed: At least one log directory must be defined via log.dirs or log.dir."
        yield _wrong_list(log_dirs, name, "it has no log dir", "IllegalArgumentException", told)
    elif len(dirs) > len(set(dirs)):
        told = f"Duplicate log directory found: {', '.join(map(os.path.abspath, dirs))}"
        yield _wrong_list(log_dirs, name, "it has a log dir twice", "KafkaException", told)


def _wrong_list(log_dirs: Sequence[str], name: str, why: str, kafka_class: str, message: str) -> Ahead:
    detail = f"{name} of the file of settings: {why}, and this release does not start with that"
    cure = f"write into {name} each log dir once, with one comma between two of them, and none at the end"
    return _refusal(log_dirs[0], detail, kafka_class, message, cure)


def _names_of_one(log_dirs: Sequence[str], names: Sequence[str]) -> Iterator[Ahead]:
    """Yield names that a broker takes for two log dirs, since it compares them as texts (MetaPropertiesEnsemble)."""
    first: dict[str, str] = {}
    for name in names:
        path = os.path.abspath(name)
        if first.setdefault(path, name) != name and path in log_dirs:
            cure = f"write it everywhere in the file of settings as {quoted(first[path])}, and not as {quoted(name)}"
            yield replace(named_twice(name, first[path]), cure=cure)


def _metadata_elsewhere(log_dirs: Sequence[str], circumstances: Circumstances) -> Iterator[Ahead]:
    """Yield a metadata log outside of its log dir (KafkaRaftServer.initializeLogDirs). By default that is the first of
    the log dirs. A log dir that the file does not have is not looked at by the broker: it may be a copy."""
    settings = circumstances.server_settings
    if not provided_names(settings).isdisjoint((*LISTS, METADATA_LOG_DIR)):
        return
    own = settings.get(METADATA_LOG_DIR, "").strip() or next(iter(circumstances.log_dirs), None)
    read = set(map(_real, circumstances.log_dirs))
    for log_dir in log_dirs:
        path = os.path.join(log_dir, CLUSTER_METADATA_DIR)
        if own is not None and os.path.isdir(path) and _real(log_dir) in read - {_real(own)}:
            told = (
                f"Found unexpected metadata location in data directory `{path}` (the configured metadata directory is "
                f"{own})."
            )
            detail = f"the metadata log dir is {own} by the file of settings: a broker does not start"
            cure = f"set metadata.log.dir={quoted(log_dir)} in the file of settings, if this is its metadata"
            yield _refusal(path, detail, "KafkaException", told, cure)


def _refusal(path: str, detail: str, kafka_class: str, message: str, cure: str) -> Ahead:
    return Ahead(path, What.REFUSES, detail, stop=refuses(kafka_class, message), cure=cure)


def _real(path: str) -> str:
    return os.path.realpath(path)
