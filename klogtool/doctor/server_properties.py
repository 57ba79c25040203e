"""What a broker's server.properties says of its log dirs, and where the disks contradict it.

The settings are those before the first section of --config-file. Log dirs that are named win over the file's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from klogtool.broker.circumstances import METADATA_LOG_DIR, Circumstances
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.config import provided_names
from klogtool.broker.releases import Rules, rules_of
from klogtool.causes import Reason
from klogtool.doctor.absent import named_twice
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause, NoteCause
from klogtool.doctor.exceptions import stop_at
from klogtool.errors import KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind
from klogtool.log.logdir import LogDir
from klogtool.quorum.settings import (
    QuorumSettings,
    find_node_id,
    used_settings,
)
from klogtool.quorum.settings import listed as listed_words
from klogtool.verify.stops import Stop, refuses

LISTS = ("log.dirs", "log.dir")  # the first wins
_CORDONED, _ALL = "cordoned.log.dirs", "*"
_SEGMENT_BYTES = "log.segment.bytes"


def walk_server_points(log_dirs: Sequence[str], circumstances: Circumstances) -> Iterator[Ahead]:
    """Yield what stops a broker with these settings on these log dirs."""
    settings = circumstances.server_settings
    node_id = find_node_id(settings)
    if node_id is not None:
        yield from _other_nodes(log_dirs, node_id)
    rules = rules_of(circumstances.kafka)
    yield from _wrong_quorum(log_dirs, settings, rules)
    yield from _wrong_lists(log_dirs, settings, rules)
    yield from _wrong_cordons(log_dirs, settings, rules)
    yield from _small_segments(log_dirs, settings, rules)
    yield from _names_of_one(log_dirs, circumstances.log_dirs)
    yield from _metadata_elsewhere(log_dirs, circumstances)


def walk_server_notes(log_dirs: Sequence[str], circumstances: Circumstances) -> Iterator[Reason]:
    """Yield what of the file klogtool does not know, and where the named log dirs are not those of the file."""
    used = {*LISTS, METADATA_LOG_DIR, *used_settings(circumstances.server_settings)}
    if unknown := sorted(used & provided_names(circumstances.server_settings)):
        yield NoteCause.PROVIDED(names=tuple(unknown))
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


def _wrong_quorum(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield the setting that ends the process before it reads a log."""
    try:
        QuorumSettings.of(settings, rules)
    except KlogError as error:
        detail, cure = AheadCause.NO_QUORUM(), AdviceCause.CORRECT_QUORUM()
        stop = refuses(error.kafka_class or "ConfigException", error.reason)
        yield Ahead(log_dirs[0], What.REFUSES, detail, stop=stop, cure=cure)


def _wrong_lists(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield the list of log dirs that ends the process: ConfigDef.ValidList, and before it KafkaConfig and
    LogManager."""
    provided = provided_names(settings)
    known = {name: listed_words(settings, name) for name in LISTS if name in settings and name not in provided}
    if rules.checks_lists:
        for name, words in known.items():
            if not words:
                yield _wrong_list(log_dirs, name, AheadCause.NO_LOG_DIR, stop_at("list-empty", name=name))
            elif "" in words:
                yield _wrong_list(log_dirs, name, AheadCause.EMPTY_NAME, stop_at("list-with-empty-word", name=name))
        return
    name = next((name for name in LISTS if name in settings), "")
    if name not in known:
        return
    dirs = list(filter(None, known[name]))
    if not dirs:
        yield _wrong_list(log_dirs, name, AheadCause.NO_LOG_DIR, stop_at("no-log-dir"))
    elif len(dirs) > len(set(dirs)):
        stop = stop_at("log-dir-twice", log_dirs=", ".join(map(os.path.abspath, dirs)))
        yield _wrong_list(log_dirs, name, AheadCause.LOG_DIR_TWICE, stop)


def _wrong_cordons(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield the list of cordoned log dirs that ends the process (KIP-1066): their names are compared as texts."""
    if not rules.cordons_log_dirs or not provided_names(settings).isdisjoint((*LISTS, _CORDONED)):
        return
    cordoned = dict.fromkeys(filter(None, listed_words(settings, _CORDONED)))
    known = next((listed_words(settings, name) for name in LISTS if name in settings), None)
    if _ALL in cordoned:
        if len(cordoned) > 1:
            yield _wrong_list(log_dirs, _CORDONED, AheadCause.ALL_AND_MORE, stop_at("cordons-all-and-more"))
    elif known is not None and (missing := [name for name in cordoned if name not in known]):
        stop = stop_at("cordons-unknown", log_dirs=", ".join(missing))
        yield _wrong_list(log_dirs, _CORDONED, AheadCause.NOT_IN_LISTS, stop)


def _small_segments(log_dirs: Sequence[str], settings: Mapping[str, str], rules: Rules) -> Iterator[Ahead]:
    """Yield log.segment.bytes below what the release takes (LogConfig, KIP-1030)."""
    text, least = settings.get(_SEGMENT_BYTES, "").strip(), rules.least_segment_bytes
    if text.isdecimal() and int(text) < least:
        stop = stop_at("setting-too-low", name=_SEGMENT_BYTES, value=int(text), least=least)
        detail = AheadCause.SETTING_TOO_LOW(name=_SEGMENT_BYTES, value=int(text), least=least)
        yield Ahead(
            log_dirs[0],
            What.REFUSES,
            detail,
            stop=stop,
            cure=AdviceCause.RAISE_SETTING(name=_SEGMENT_BYTES, least=least),
        )


def _wrong_list(log_dirs: Sequence[str], name: str, why: AheadCause, stop: Stop) -> Ahead:
    detail, cure = AheadCause.WRONG_LIST(name=name, why=why()), AdviceCause.CORRECT_LIST(name=name)
    return Ahead(log_dirs[0], What.REFUSES, detail, stop=stop, cure=cure)


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
