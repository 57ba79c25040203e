"""As which release of Kafka a command decides. What differs between releases is declared here, and only here.

`Rules` has a named rule for each difference. Code that a difference concerns asks for the rule by its name; no other
code compares versions. `ABOUT` says what each rule is, since when, and by which ticket; docs/releases.md is written
from it. The newest release but one is the reference; rules of another release are those of its neighbour, with what
changed between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import asdict, replace

from klogtool.errors import KlogError
from klogtool.format.java_numbers import MAX_LONG

Release: TypeAlias = Literal["3.6.2", "3.8.1", "3.9.0", "3.9.1", "3.9.2", "4.0.1", "4.1.1", "4.2.0", "4.3.1", "4.4.0"]
RELEASES: tuple[Release, ...] = get_args(Release)  # the oldest first
REFERENCE: Release = "4.3.1"  # the release of every answer that names no other
OPTION = "--kafka"
_HOUR_MS = 3_600_000
MAX_SHORT = (1 << 15) - 1


class EmptiedBatch(StrEnum):
    """What becomes of the last batch of a cleaned range if it loses all of its records."""

    STAYS = "stays as an empty batch"
    GOES = "goes"
    STAYS_AT_HIGH_WATERMARK = "goes, unless it ends at the high watermark"


class MetadataLevels(Struct, frozen=True):
    """Levels of metadata.version (MetadataVersion): those that a release can read, and the highest for production."""

    lowest: int
    highest: int
    production: int

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.lowest} to {self.highest}; {self.production} is the highest for production"


class FeatureLevels(Struct, frozen=True, kw_only=True):
    """The highest level of each feature, but for metadata.version, that a controller takes (QuorumFeatures).

    known: whether klogtool knows them for the release.
    """

    known: bool = True
    kraft_version: int = 1
    group_version: int = 1
    transaction_version: int = 2
    eligible_leader_replicas_version: int = 1
    share_version: int = 1
    streams_version: int = 1

    def of(self, feature: str) -> int:
        """Return the highest level of a feature; 0 if the release does not have it."""
        return int(getattr(self, feature.replace(".", "_"), 0)) if feature.endswith(".version") else 0

    def __str__(self) -> str:
        """Return it in words."""
        if not self.known:
            return "not known to klogtool"
        levels = {name.replace("_", "."): level for name, level in asdict(self).items() if name != "known" and level}
        return ", ".join(f"{name} {level}" for name, level in levels.items())


class Rules(Struct, frozen=True, kw_only=True):
    """What a release does where releases differ. `ABOUT` says what each of these means."""

    release: Release
    keeps_emptied_batch: EmptiedBatch = EmptiedBatch.STAYS
    rewrites_old_magic: bool = True
    index_entry_per_batch: bool = True
    timestamp_after_max_ms_default: int = _HOUR_MS
    stops_at_higher_epoch: bool = True
    checks_marker_version: bool = True
    limits_decompressed_size: bool = False
    moves_watermark_to_batch: bool = True
    finds_batch_by_base: bool = True
    empties_at_io_error: bool = True
    finds_record_of_max: bool = True
    knows_latest_tiered: bool = True
    prints_as_java_tool: bool = True
    knows_newest_messages: bool = False
    trims_every_index: bool = True
    metadata_levels: MetadataLevels = MetadataLevels(7, 31, 30)
    feature_levels: FeatureLevels = FeatureLevels()
    clears_elr: bool = True
    counts_configured_brokers: bool = True
    names_every_listener: bool = True
    cleaner_stops_at_line_twice: bool = True
    reads_zero_checkpoint: bool = False
    reads_whole_txn_version: bool = False
    has_zookeeper: bool = False
    has_dynamic_quorum: bool = True
    has_pre_vote: bool = True
    checks_lists: bool = True


class RuleText(Struct, frozen=True):
    """A rule for people. situation: when it matters; yes, no: what a release does where the rule is true or false (a
    rule with other values names them itself); ticket: of the change."""

    area: str
    situation: str
    ticket: str
    yes: str = ""
    no: str = ""


ABOUT: Mapping[str, RuleText] = {
    "keeps_emptied_batch": RuleText(
        "cleaning",
        "the last batch of the cleaned range loses all of its records; where one of magic 0 or 1 would have to stay, "
        "the cleaner fails",
        "KAFKA-17076, KAFKA-20452",
    ),
    "rewrites_old_magic": RuleText(
        "cleaning",
        "a compacted topic has batches of magic 0 or 1",
        "KAFKA-13093 (KIP-724)",
        "kept batches are written anew with magic 2",
        "kept batches stay of their magic",
    ),
    "index_entry_per_batch": RuleText(
        "cleaning",
        "an append or a write of the cleaner has several batches",
        "KAFKA-806",
        "each batch can get an index entry",
        "at most one index entry for all of them",
    ),
    "timestamp_after_max_ms_default": RuleText(
        "appending",
        "milliseconds that a timestamp may be ahead, where `message.timestamp.after.max.ms` is not set",
        "KAFKA-16368 (KIP-1030)",
    ),
    "stops_at_higher_epoch": RuleText(
        "appending",
        "a follower's fetch has batches of a higher leader epoch than its leader's",
        "KAFKA-18723",
        "the batches before them are appended",
        "all are appended",
    ),
    "checks_marker_version": RuleText(
        "appending",
        "a marker of transaction version 2 has an epoch that is not above its producer's",
        "KAFKA-19446",
        "refused, unless its transaction has ended already",
        "accepted if the epoch is not below the producer's: the version is not looked at",
    ),
    "limits_decompressed_size": RuleText(
        "appending",
        "a record of a compressed batch is larger than `max.decompressed.message.bytes`",
        "new in 4.4.0",
        "the append is refused; lookups by time and the cleaner fail at stored ones",
        "the setting is not known",
    ),
    "moves_watermark_to_batch": RuleText(
        "reading",
        "the high watermark or the log start offset lies inside a batch, or in a gap of a compacted log",
        "KAFKA-17803",
        "it moves to the base of the batch that is found there",
        "it stays where it is",
    ),
    "finds_batch_by_base": RuleText(
        "reading",
        "batches of a segment are out of order, or the last offset of one is above the next one",
        "KAFKA-18989",
        "an offset is found in the last batch before the first whose base is above it",
        "an offset is found in the first batch whose last offset is not below it",
    ),
    "empties_at_io_error": RuleText(
        "starting",
        "recovery cannot write or read a file of a segment: a folder has the name of its index or snapshot",
        "LogLoader in Java",
        "the segment is emptied, and those after it are deleted",
        "the log dir goes offline",
    ),
    "finds_record_of_max": RuleText(
        "reading",
        "lookup of the largest timestamp (`max`)",
        "KAFKA-16310",
        "the record that has it",
        "the last offset of the batch that has it",
    ),
    "knows_latest_tiered": RuleText(
        "reading", "lookup of `latest-tiered`", "KIP-1005", "answered", "refused: the release does not know it"
    ),
    "prints_as_java_tool": RuleText(
        "printing",
        "the text of kafka-dump-log",
        "KAFKA-14579",
        "as the tool in Java writes it",
        "as the tool in Scala wrote it",
    ),
    "knows_newest_messages": RuleText(
        "printing",
        "UnregisterControllerRecord of `__cluster_metadata`, and tags 2 and 3 of StreamsGroupMetadataValue",
        "new in 4.4.0",
        "decoded",
        "not in the text of `dump-log`, as in Kafka's; JSON has them",
    ),
    "trims_every_index": RuleText(
        "stopping",
        "a segment is the last one no longer, without a roll: the cleaner has split a segment whose offsets overflow",
        "KAFKA-20979",
        "a clean stop cuts its indexes behind their entries",
        "they keep their full size, with zeros behind the entries; so does the last segment of `__cluster_metadata-0`",
    ),
    "metadata_levels": RuleText("starting", "levels of metadata.version that it reads", "KIP-778"),
    "feature_levels": RuleText(
        "starting",
        "the highest level of each other feature that its controllers take",
        "KIP-584, KIP-1022",
    ),
    "clears_elr": RuleText(
        "starting",
        "the metadata has a ClearElrRecord",
        "KIP-966",
        "replayed",
        "refused: the release does not know it",
    ),
    "counts_configured_brokers": RuleText(
        "starting",
        "the metadata has a setting of a broker whose name is no number",
        "KIP-966",
        "a controller refuses it",
        "taken",
    ),
    "names_every_listener": RuleText(
        "starting",
        "the metadata has a broker with a listener without a name",
        "BrokerRegistration, 4.0.0",
        "refused",
        "taken",
    ),
    "cleaner_stops_at_line_twice": RuleText(
        "starting",
        "a partition has a line in the cleaner checkpoints of two log dirs",
        "LogCleanerManager in Java, 4.1.0",
        "the log cleaner stops",
        "one line wins",
    ),
    "reads_zero_checkpoint": RuleText(
        "starting",
        "a log dir was formatted by 4.4: its features are in a snapshot of `__cluster_metadata-0`, not in "
        "`bootstrap.checkpoint`",
        "KIP-1170",
        "read",
        "not read before the first start: all features but metadata.version are lost",
    ),
    "reads_whole_txn_version": RuleText(
        "starting",
        "the version of an entry in a `.txnindex` has a zero, or a number below it, in its first byte, and is not 0",
        "TransactionIndex, 4.4.0",
        "refused: the version is both bytes",
        "taken: the version is the first byte",
    ),
    "has_zookeeper": RuleText(
        "starting",
        "a broker with ZooKeeper wrote the log dirs, and no partition has a topic id",
        "KIP-500, KIP-866",
        "it starts with ZooKeeper",
        "refused, or all partitions are set aside as -stray: migrate to KRaft first",
    ),
    "has_dynamic_quorum": RuleText(
        "starting",
        "its settings have controller.quorum.bootstrap.servers, and no controller.quorum.voters",
        "KIP-853",
        "the metadata log says who votes",
        "refused",
    ),
    "has_pre_vote": RuleText(
        "starting",
        "a controller finds no leader",
        "KIP-996",
        "ProspectiveState: it asks whether it would get the votes, and its epoch stays",
        "CandidateState: its epoch grows with every attempt",
    ),
    "checks_lists": RuleText(
        "starting",
        "`log.dirs` or `log.dir` has an empty name, such as behind a comma at its end, or a name twice",
        "KIP-1161",
        "an empty name is refused; a name that is there twice is used once",
        "an empty name is left out; a name that is there twice is refused",
    ),
}

_V4_3_1 = Rules(release="4.3.1")
_V4_4_0 = replace(
    _V4_3_1,
    release="4.4.0",
    keeps_emptied_batch=EmptiedBatch.STAYS_AT_HIGH_WATERMARK,
    limits_decompressed_size=True,
    knows_newest_messages=True,
    trims_every_index=False,
    metadata_levels=MetadataLevels(7, 34, 33),
    feature_levels=FeatureLevels(share_version=2),
    reads_zero_checkpoint=True,
    reads_whole_txn_version=True,
)
_V4_2_0 = replace(
    _V4_3_1,
    release="4.2.0",
    prints_as_java_tool=False,
    metadata_levels=MetadataLevels(7, 30, 29),
    feature_levels=FeatureLevels(known=False),
)
_V4_1_1 = replace(
    _V4_2_0,
    release="4.1.1",
    checks_marker_version=False,
    checks_lists=False,
    metadata_levels=MetadataLevels(7, 29, 27),
)
_V4_0_1 = replace(
    _V4_1_1,
    release="4.0.1",
    finds_batch_by_base=False,
    cleaner_stops_at_line_twice=False,
    metadata_levels=MetadataLevels(7, 26, 25),
)
_V3_9_2 = replace(
    _V4_0_1,
    release="3.9.2",
    rewrites_old_magic=False,
    timestamp_after_max_ms_default=MAX_LONG,
    moves_watermark_to_batch=False,
    empties_at_io_error=False,
    metadata_levels=MetadataLevels(1, 23, 21),
    feature_levels=FeatureLevels(
        group_version=0, transaction_version=0, eligible_leader_replicas_version=0, share_version=0, streams_version=0
    ),
    clears_elr=False,
    counts_configured_brokers=False,
    names_every_listener=False,
    has_zookeeper=True,
    has_pre_vote=False,
)
_V3_9_1 = replace(_V3_9_2, release="3.9.1", keeps_emptied_batch=EmptiedBatch.GOES)
_V3_9_0 = replace(_V3_9_1, release="3.9.0", index_entry_per_batch=False, stops_at_higher_epoch=False)
_V3_8_1 = replace(
    _V3_9_0,
    release="3.8.1",
    knows_latest_tiered=False,
    has_dynamic_quorum=False,
    metadata_levels=MetadataLevels(1, 21, 20),
    feature_levels=FeatureLevels(known=False),
)
_V3_6_2 = replace(_V3_8_1, release="3.6.2", finds_record_of_max=False, metadata_levels=MetadataLevels(1, 14, 14))
_RULES: Mapping[str, Rules] = {
    rules.release: rules
    for rules in (_V3_6_2, _V3_8_1, _V3_9_0, _V3_9_1, _V3_9_2, _V4_0_1, _V4_1_1, _V4_2_0, _V4_3_1, _V4_4_0)
}


def rules_of(release: Release) -> Rules:
    """Return the rules of a release."""
    return _RULES[release]


REFERENCE_RULES = rules_of(REFERENCE)
# What a log may have whatever release wrote it: every level and message that any release takes.
TOLERANT_RULES = replace(
    rules_of(RELEASES[-1]),
    metadata_levels=MetadataLevels(1, MAX_SHORT, MAX_SHORT),
    feature_levels=FeatureLevels(known=False),
    counts_configured_brokers=False,
    names_every_listener=False,
)


def value_words(rules: Rules, name: str) -> str:
    """Say in words what a release does by one of its rules."""
    value = getattr(rules, name)
    if isinstance(value, bool):
        return ABOUT[name].yes if value else ABOUT[name].no
    if isinstance(value, int):
        return "no limit" if value == MAX_LONG else f"{value:,} ms"
    return str(value)


def find_release(text: str) -> Release:
    """Return the release that a text names: `3.9.2`, or `3.9` for the newest patch that is known of 3.9.

    Raises KlogError, with the list of the known releases, for any other text.
    """
    for release in reversed(RELEASES):
        if text in (release, line_of(release)):
            return release
    raise KlogError(f"'{text}' is not a release that klogtool knows; it knows {', '.join(RELEASES)}")


def line_of(release: str) -> str:
    """Return the line of a release: `3.9` for `3.9.2`."""
    return release.rpartition(".")[0]
