"""What a broker knows of a partition beside its dir: settings, the time, checkpoints, whether the last stop was clean.

`Circumstances` is what the command line gives, for any partition. `LoadTerms` is what applies to one partition: a value
that was not given is read from its log dir, and each value has its source.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct, field, to_builtins

from klogtool.broker.causes import LoadNote
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR, NEVER_TIERED, ClusterConfig, layers_of
from klogtool.broker.config import NO_LIMIT_BYTES, LogConfig, provided_names, settle, value_text
from klogtool.broker.releases import REFERENCE, REFERENCE_RULES, Release, Rules, rules_of
from klogtool.causes import Reason
from klogtool.errors import Corrupt, KlogError
from klogtool.format.metadata_versions import METADATA_VERSION, metadata_version_name
from klogtool.format.names import OFFSET_CHECKPOINTS, FileKind, PartitionDirName, PartitionDirState, TopicPartition
from klogtool.format.typed import Moment
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.log.log_dirs import find_log_dir_around, is_log_dir
from klogtool.log.logdir import LogDir, has_remote_storage, knows_topic_ids
from klogtool.log.side_file import find_content
from klogtool.parameters import NOT_GIVEN, Given, Unit, parameter
from klogtool.values import Long as Long

LastStop: TypeAlias = Literal["clean", "unclean"]
CLEAN: LastStop = "clean"
UNCLEAN: LastStop = "unclean"
REMOTE_STORAGE = "remote.storage.enable"
METADATA_LOG_DIR = "metadata.log.dir"
REMOTE_SYSTEM = "remote.log.storage.system.enable"
LOADING_SETTINGS = ("segment.index.bytes", "index.interval.bytes", "producer.id.expiration.ms")
SIZE_LIMIT = "max.decompressed.message.bytes"

_STORAGE_EXCEPTION = "KafkaStorageException"  # LogManager turns an IOException into this one

Offsets: TypeAlias = dict[TopicPartition, int]


# Parts of a --config-file: a pattern of topics (None: all topics and the broker), and settings.
Sections: TypeAlias = tuple[tuple[str | None, Mapping[str, str]], ...]


class Circumstances(Struct, frozen=True, kw_only=True):
    """What the user gave. config: settings, --config; config_sections: of --config-file, each a pattern for topics
    (None: for all) and its settings. now_ms: the clock, which only the command line and the Python API ask;
    loaded_at_ms: the clock at loading. kafka: the release of the rules. None: not given."""

    now_ms: Annotated[
        Given[Long, Moment | None],
        parameter("The current time: epoch ms or ISO 8601 (UTC).  [default: the clock]", Unit.TIME, option="now"),
    ] = NOT_GIVEN
    loaded_at_ms: Annotated[
        Given[Long | None, Moment | None],
        parameter(
            "When the log is loaded: decides which producers have expired.  [default: --now]",
            Unit.TIME,
            option="loaded-at",
        ),
    ] = NOT_GIVEN
    config: Annotated[
        Mapping[str, str],
        parameter("Set a topic or broker config, by Kafka's name. Repeatable.", Unit.SETTINGS),
    ] = field(default_factory=dict)
    config_sections: Annotated[
        Sections,
        parameter(
            "Read settings from a properties file. Sections [topic] or [pattern*] apply to topics.",
            Unit.SETTINGS_FILE,
            option="config-file",
        ),
    ] = ()
    recovery_point: Annotated[Long | None, parameter("Use N instead of the checkpointed recovery point.")] = None
    log_start_offset: Annotated[Long | None, parameter("Use N instead of the checkpointed log start offset.")] = None
    high_watermark: Annotated[Long | None, parameter("Use N instead of the checkpointed high watermark.")] = None
    last_stop: Annotated[
        LastStop | None,
        parameter("How the broker stopped.  [default: clean if the log dir has the clean shutdown marker]"),
    ] = None
    kafka: Annotated[Release, parameter("Do as this release of Kafka does.", Unit.RELEASE)] = REFERENCE

    def __post_init__(self) -> None:
        if self.now_ms is NOT_GIVEN:
            raise TypeError("now_ms is missing: whoever makes this asks the clock")

    @property
    def server_settings(self) -> Mapping[str, str]:
        """Return the settings of --config-file for the broker itself; empty without a file."""
        return {key: value for pattern, own in self.config_sections if pattern is None for key, value in own.items()}

    @property
    def has_no_remote_storage(self) -> bool:
        """Return whether it is known that the broker has no remote storage (remote.log.storage.system.enable): a
        setting says so, or a file with the settings of a broker does not have it, and that is Kafka's default."""
        said = self.config.get(REMOTE_SYSTEM, self.server_settings.get(REMOTE_SYSTEM))
        return bool(self.log_dirs) if said is None else said.strip().lower() == "false"

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Return the log dirs and the metadata log dir that --config-file names, each once
        (AbstractKafkaConfig.logDirs). Those of a config provider are not known."""
        return server_log_dirs(self.server_settings)

    @property
    def metadata_log_dir(self) -> str | None:
        """Return the log dir of the cluster's metadata by --config-file: metadata.log.dir, else the first of log.dirs
        (MetadataLogConfig); None if it is not known."""
        if not provided_names(self.server_settings).isdisjoint(("log.dirs", "log.dir", METADATA_LOG_DIR)):
            return None
        return self.server_settings.get(METADATA_LOG_DIR, "").strip() or next(iter(self.log_dirs), None)

    @property
    def checkpoints_read(self) -> tuple[FileKind, ...]:
        """Return the checkpoints of a log dir that the broker reads: cleaner-offset-checkpoint with a cleaner only
        (log.cleaner.enable). Raises KlogError for a value of the wrong type."""
        has_cleaner = self.config_for("").log_cleaner_enable
        return tuple(kind for kind in OFFSET_CHECKPOINTS if has_cleaner or kind is not FileKind.CLEANER_CHECKPOINT)

    def config_for(self, topic: str) -> LogConfig:
        """Return a topic's config from the given settings. Raises KlogError for a value of the wrong type."""
        return self.settled_for(topic, ClusterConfig(None, None))[0]

    def settled_for(self, topic: str, cluster: ClusterConfig) -> tuple[LogConfig, dict[str, str]]:
        """Return a topic's config from all sources, and the source of each setting that is not Kafka's default.

        In the file, the section for all topics comes first, then sections whose pattern matches, then the one with
        exactly this name; later ones win. Raises KlogError for a given value of the wrong type.
        """
        by_file = settings_by_file(topic, self.config_sections)
        defaults = LogConfig(message_timestamp_after_max_ms=rules_of(self.kafka).timestamp_after_max_ms_default)
        return settle(layers_of(topic, self.config, by_file, cluster), defaults)

    def as_arguments(self) -> dict[str, object]:
        """Return all fields as JSON types, for a plan that is carried out later."""
        sections = [[pattern, dict(settings)] for pattern, settings in self.config_sections]
        return {**to_builtins(self), "config_sections": sections}


def server_log_dirs(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the log dirs and the metadata log dir of a broker's settings, each once, as far as they are known."""
    metadata = _known(settings).get(METADATA_LOG_DIR, "").strip()
    return tuple(dict.fromkeys((*data_log_dirs(settings), *([metadata] if metadata else []))))


def data_log_dirs(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the log dirs of a broker's settings that hold logs, as far as they are known: log.dirs, or log.dir."""
    known = _known(settings)
    return listed(known.get("log.dirs", known.get("log.dir")))


def _known(settings: Mapping[str, str]) -> Mapping[str, str]:
    return dict(settings) | dict.fromkeys(provided_names(settings), "")


def listed(text: str | None) -> tuple[str, ...]:
    """Return the values of a setting that is a list."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def settings_by_file(topic: str, sections: Sections) -> dict[str, str]:
    """Return what the sections of a --config-file say of a topic; see `Circumstances.settled_for`."""
    for_all = [settings for pattern, settings in sections if pattern is None]
    fitting = [
        settings for pattern, settings in sections if pattern not in (None, topic) and fnmatchcase(topic, pattern or "")
    ]
    named = [settings for pattern, settings in sections if pattern == topic]
    by_file: dict[str, str] = {}
    for settings in (*for_all, *fitting, *named):
        by_file |= settings
    return by_file


class Evidence(Struct, frozen=True):
    """Evidence that a log once reached up to an offset (exclusive). by: the source; where: its file."""

    by: str
    offset: int
    where: str


class LoadTerms(Struct, frozen=True):
    """The terms for loading one partition. high_watermark None: use the log's end. is_clean: the last stop was clean.

    notes: the sources of values that the user did not give. sources: the source of each setting that is not
    Kafka's default, by Kafka's topic name. evidence: how far the log reached, by the log dir's checkpoints. has_marker:
    the clean marker exists and counts. compaction: evidence, outside the log, that the topic is compacted, or None.
    rules: those of the release that was asked for. is_tiered: older segments may be in remote storage; None: nobody
    says so, and the log start has a line in its checkpoint, as each tiered topic has. has_remote_storage: the log dir
    shows it, or the line is for offset 0, while other topics have a line only above their first segment
    (LogManager.checkpointLogStartOffsetsInDir); only looked up for None. start_notes: those of the notes that are about
    the last stop and the recovery point.
    is_remote_off: the topic has remote.storage.enable, and the broker has no remote storage: it takes all records for
    local ones. keeps_start_line: the line of log-start-offset-checkpoint stays, as a broker with remote storage may
    need it. is_start_known: the log start was given or has a line; a tiered log without one starts where its remote
    segments do, which the broker finds while it runs (RemoteLogManager.findLogStartOffset). is_policy_known: whether
    it is known if the topic is compacted.
    """

    config: LogConfig
    now_ms: int
    loaded_at_ms: int
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int | None = None
    is_clean: bool = False
    notes: tuple[Reason, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = ()
    has_marker: bool = False
    compaction: Reason | None = None
    rules: Rules = REFERENCE_RULES
    is_tiered: bool | None = False
    has_remote_storage: bool = False
    start_notes: tuple[Reason, ...] = ()
    is_remote_off: bool = False
    keeps_start_line: bool = False
    is_start_known: bool = True
    is_policy_known: bool = False

    @property
    def is_compacted(self) -> bool | None:
        """Whether the topic is compacted; None if nobody knows."""
        return True if self.compaction is not None else False if self.is_policy_known else None

    @property
    def may_begin_elsewhere(self) -> bool:
        """Whether records before the first segment may be in remote storage. A log start with a line below the first
        segment looks the same for a tiered topic and for one whose first segments somebody removed."""
        return self.is_tiered is not False or self.config.remote_storage_enable

    @property
    def max_record_size(self) -> int | None:
        """The size up to which records of compressed batches are read (max.decompressed.message.bytes); None: any."""
        most = self.config.max_decompressed_message_bytes
        return most if self.rules.limits_decompressed_size and most < NO_LIMIT_BYTES else None

    def setting_notes(self, names: Iterable[str]) -> Iterator[Reason]:
        """Yield the values of these settings, with their sources, for a command that uses them after loading."""
        used = [name for name in names if name in self.sources]
        yield from _setting_notes(self.config, self.sources, used)
        is_default = not used and not any(name in self.sources for name in LOADING_SETTINGS)
        yield LoadNote.ALL_DEFAULT() if is_default else LoadNote.OTHERS_DEFAULT()


def _setting_notes(config: LogConfig, sources: Mapping[str, str], names: Iterable[str]) -> Iterator[Reason]:
    for name in names:
        if name in sources:
            yield LoadNote.SETTING(name=name, value=value_text(config, name), source=sources[name])


class Checkpoints:
    """The files of a log dir that say something about its partitions; each is read once. log_dir None: there is
    none."""

    def __init__(
        self, log_dir: str | None, cluster: ClusterConfig | None = None, *, resets_unreadable: bool = False
    ) -> None:
        """cluster: if `__cluster_metadata` is in another log dir of the broker. resets_unreadable: a checkpoint that
        cannot be read counts as empty, as in a start, which loads all logs before it gives the log dir up
        (LogManager.loadLogs)."""
        self.log_dir = log_dir
        self._resets_unreadable = resets_unreadable
        self._cluster = cluster
        self._read: dict[FileKind, tuple[Offsets | None, Reason]] = {}

    @classmethod
    def beside(cls, path: str) -> Checkpoints:
        """Return the checkpoints of the log dir around a partition dir, if there is one."""
        return cls(find_log_dir_around(path))

    @classmethod
    def of(cls, folder: str, cluster: ClusterConfig | None = None, *, resets_unreadable: bool = False) -> Checkpoints:
        """Return the checkpoints of a folder of partition dirs; of none, if it is no log dir."""
        return cls(folder if is_log_dir(folder) else None, cluster, resets_unreadable=resets_unreadable)

    @property
    def cluster(self) -> ClusterConfig:
        """The settings in `__cluster_metadata` of the log dir; read at first use."""
        if self._cluster is None:
            self._cluster = ClusterConfig.of(self.log_dir)
        return self._cluster

    def cluster_among(self, log_dirs: Sequence[str]) -> ClusterConfig:
        """Return the settings in `__cluster_metadata` of the log dir; if it has none, in another of `log_dirs`, if that
        is of the same broker. A log dir outside of them may be a copy."""
        if self.cluster.metadata is None and self.log_dir is not None:
            real = [os.path.realpath(path) for path in log_dirs]
            if os.path.realpath(self.log_dir) in real:
                self._cluster = ClusterConfig.among(self.log_dir, real)
        return self.cluster

    @cached_property
    def knows_topic_ids(self) -> bool:
        """Whether brokers with topic ids have written the log dir; looked up at first use."""
        return self.log_dir is not None and knows_topic_ids(LogDir(self.log_dir))

    @cached_property
    def has_remote_storage(self) -> bool:
        """Whether the log dir shows tiered storage; looked up at first use."""
        return self.log_dir is not None and has_remote_storage(self.log_dir)

    @property
    def has_clean_marker(self) -> bool:
        """Return whether the last stop was clean, judged as a broker does."""
        return self.log_dir is not None and os.path.exists(os.path.join(self.log_dir, FileKind.CLEAN_SHUTDOWN.value))

    def find(self, kind: FileKind, topic_partition: TopicPartition) -> tuple[int | None, Reason]:
        """Return a partition's offset, or None; and its source, or why there is none.

        Raises Corrupt (KafkaStorageException) for a checkpoint with which a broker takes the log dir offline.
        """
        if self.log_dir is None:
            return None, LoadNote.OUTSIDE()
        if kind not in self._read:
            self._read[kind] = self._read_now(os.path.join(self.log_dir, kind.value), kind)
        offsets, why = self._read[kind]
        if offsets is None:
            return None, why
        value = offsets.get(topic_partition.in_checkpoints)
        return value, (LoadNote.NO_LINE if value is None else LoadNote.BY_FILE)(file=kind.value)

    def _read_now(self, path: str, kind: FileKind) -> tuple[Offsets | None, Reason]:
        try:
            return find_content(path), LoadNote.NO_FILE(file=kind.value)
        except KlogError as error:
            # If one of its numbers is not a number, a broker treats the file as empty.
            is_reset = isinstance(error, Corrupt) and (
                error.kafka_class != _STORAGE_EXCEPTION or kind is FileKind.REPLICATION_CHECKPOINT
            )
            if not is_reset and not self._resets_unreadable:
                raise
            return None, LoadNote.UNREADABLE(file=kind.value, error=error.reason)

    def find_line(self, kind: FileKind, topic_partition: TopicPartition) -> int | None:
        """Return a partition's offset; None also if the checkpoint cannot be read, whatever a broker does then."""
        try:
            return self.find(kind, topic_partition)[0]
        except KlogError:
            return None


def terms_of(
    path: str, circumstances: Circumstances, *, clean_by_default: bool = True, checkpoints: Checkpoints | None = None
) -> LoadTerms:
    """Return the terms for the partition dir `path`. clean_by_default: for one that is in no log dir.

    Raises Corrupt (KafkaStorageException) for a checkpoint with which a broker takes the log dir offline, if it is
    needed.
    """
    name = find_partition_dir_name(own_name(path))
    topic_partition = TopicPartition(name.topic, name.partition) if name else TopicPartition(own_name(path), 0)
    beside = checkpoints or Checkpoints.beside(path)
    cluster = beside.cluster_among(circumstances.log_dirs)
    is_metadata = str(topic_partition) == CLUSTER_METADATA_DIR
    is_clean, stop_note = _last_stop(beside, circumstances, clean_by_default, is_metadata=is_metadata)
    # The checkpoints say nothing of a folder to be deleted that has a successor: they are about that one.
    is_going = name is not None and name.state is PartitionDirState.DELETE
    is_replaced = is_going and os.path.isdir(os.path.join(beside.log_dir or os.devnull, str(topic_partition)))
    fate = None if name is None else fate_of(name)
    notes = [] if name is None or fate is None else [LoadNote.FATE(state=name.state.value, fate=fate)]
    notes += [_release_note(circumstances.kafka, cluster), stop_note]
    offsets: list[int | None] = []
    for what, kind, value, default in (
        ("recovery point", FileKind.RECOVERY_POINT_CHECKPOINT, circumstances.recovery_point, "0"),
        ("log start offset", FileKind.LOG_START_CHECKPOINT, circumstances.log_start_offset, "0"),
        ("high watermark", FileKind.REPLICATION_CHECKPOINT, circumstances.high_watermark, "the log's end"),
    ):
        if value is None and is_replaced:
            offset, source = None, LoadNote.OF_SUCCESSOR(partition=str(topic_partition))
        else:
            offset, source = (value, LoadNote.AS_GIVEN()) if value is not None else beside.find(kind, topic_partition)
        notes.append(LoadNote.OFFSET(what=what, offset=default if offset is None else offset, source=source))
        offsets.append(offset)
    recovery_point, log_start_offset, high_watermark = offsets
    recovery_note = notes[-len(offsets)]
    config, sources = circumstances.settled_for(topic_partition.topic, cluster)
    has_line = circumstances.log_start_offset is None and log_start_offset is not None
    may_be_tiered = _is_tiered(topic_partition.topic, config, sources, cluster, has_line=has_line)
    is_off = circumstances.has_no_remote_storage
    is_tiered = False if is_off else may_be_tiered
    is_held = name is not None and name.state.is_live
    return LoadTerms(
        config,
        circumstances.now_ms,
        circumstances.now_ms if circumstances.loaded_at_ms is None else circumstances.loaded_at_ms,
        recovery_point or 0,
        log_start_offset or 0,
        high_watermark,
        is_clean,
        (
            *notes,
            *_setting_notes(config, sources, LOADING_SETTINGS),
            *_size_limit_notes(config, sources, rules_of(circumstances.kafka)),
            *cluster.notes(topic_partition.topic, path),
        ),
        sources,
        tuple(_evidence(beside if is_held else Checkpoints(None), topic_partition, circumstances)),
        is_clean and beside.has_clean_marker and (is_held or name is None),
        find_compaction(topic_partition, config, sources, beside),
        rules_of(circumstances.kafka),
        is_tiered,
        is_tiered is None and (log_start_offset == 0 or beside.has_remote_storage),
        (stop_note, recovery_note),
        is_off and may_be_tiered is True,
        has_line and (is_off or may_be_tiered is None) and may_be_tiered is not False,
        log_start_offset is not None,
        knows_policy(topic_partition.topic, sources, cluster),
    )


def _is_tiered(
    topic: str, config: LogConfig, sources: Mapping[str, str], cluster: ClusterConfig, *, has_line: bool
) -> bool | None:
    """Return whether a topic has remote storage (UnifiedLog.isRemoteLogEnabled); None if it may have. has_line: its log
    start comes from log-start-offset-checkpoint.

    A setting that a broker ignores leaves the line as it is: without the line, a tiered log starts at offset 0.
    """
    if topic in NEVER_TIERED:
        return False
    if config.remote_storage_enable:
        return (None if has_line else False) if config.compact else True
    is_known = REMOTE_STORAGE in sources or cluster.knows(topic)
    return None if has_line and not is_known else False


_FATES = {
    PartitionDirState.DELETE: LoadNote.DELETED(),
    PartitionDirState.STRAY: LoadNote.STRAY(),
    PartitionDirState.FUTURE: LoadNote.FUTURE(),
}


def fate_of(name: PartitionDirName) -> Reason | None:
    """Return what a broker does with a folder because of the end of its name; None if it simply serves it."""
    return _FATES.get(name.state)


def _size_limit_notes(config: LogConfig, sources: Mapping[str, str], rules: Rules) -> Iterator[Reason]:
    """Yield what becomes of max.decompressed.message.bytes, where it is set: most releases do not know it."""
    if rules.limits_decompressed_size:
        yield from _setting_notes(config, sources, (SIZE_LIMIT,))
    elif SIZE_LIMIT in sources:
        yield LoadNote.IGNORED_SETTING(name=SIZE_LIMIT, release=rules.release)


def _release_note(release: Release, cluster: ClusterConfig) -> Reason:
    level = cluster.metadata.features.get(METADATA_VERSION) if cluster.metadata else None
    source = "the default" if release == REFERENCE else "as given"
    if level is None:
        return LoadNote.RELEASE(release=release, source=source)
    return LoadNote.RELEASE_AT_LEVEL(release=release, source=source, level=metadata_version_name(level))


def _evidence(beside: Checkpoints, topic_partition: TopicPartition, circumstances: Circumstances) -> Iterator[Evidence]:
    """Yield how far the log reached by the checkpoints. A recovery point given by the user only says where to begin."""
    for by, kind, value in (
        ("high watermark", FileKind.REPLICATION_CHECKPOINT, circumstances.high_watermark),
        ("recovery point", FileKind.RECOVERY_POINT_CHECKPOINT, None),
    ):
        if value is not None:
            yield Evidence(by, value, "as given")
        elif (offset := beside.find_line(kind, topic_partition)) is not None:
            yield Evidence(by, offset, kind.value)


def find_compaction(
    topic_partition: TopicPartition, config: LogConfig, sources: Mapping[str, str], beside: Checkpoints
) -> Reason | None:
    """Return evidence, outside the log itself, that offsets may be missing because the topic is compacted; else
    None."""
    if config.compact:
        return LoadNote.HAS_COMPACT(source=sources.get("cleanup.policy", "by default"))
    if beside.find_line(FileKind.CLEANER_CHECKPOINT, topic_partition) is not None:
        return LoadNote.CLEANER_LINE(file=FileKind.CLEANER_CHECKPOINT.value)
    return None


def knows_policy(topic: str, sources: Mapping[str, str], cluster: ClusterConfig) -> bool:
    """Return whether it is known if a topic is compacted: a setting says so, or the cluster knows the topic."""
    return "cleanup.policy" in sources or cluster.knows(topic)


def _last_stop(
    beside: Checkpoints, circumstances: Circumstances, clean_by_default: bool, *, is_metadata: bool
) -> tuple[bool, Reason]:
    """is_metadata: it is the metadata log, which every start recovers (KafkaRaftLog.createLog)."""
    if circumstances.last_stop is not None:
        return circumstances.last_stop == CLEAN, LoadNote.STOP_GIVEN(stop=circumstances.last_stop)
    if is_metadata:
        return False, LoadNote.STOP_OF_METADATA()
    if beside.log_dir is None:
        return clean_by_default, LoadNote.STOP_ASSUMED(stop=CLEAN if clean_by_default else UNCLEAN)
    is_clean = beside.has_clean_marker
    return is_clean, (LoadNote.STOP_CLEAN if is_clean else LoadNote.STOP_UNCLEAN)(marker=FileKind.CLEAN_SHUTDOWN.value)
