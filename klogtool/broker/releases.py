"""As which release of Kafka a command decides. What differs between releases is declared here, and only here.

`Rules` has a named rule for each difference. Code that a difference concerns asks for the rule by its name; no other
code compares versions. docs/releases.md says what each rule is, since when, and by which ticket; the words
are in tools/release_rules.json. The newest release but one is the reference; rules of another release are those of its
neighbour, with what changed between the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.causes import WrongWord
from klogtool.errors import KlogError
from klogtool.format.hash_order import LongHashKeys, ScalaLongHashKeys, UpdatedProducers
from klogtool.format.java_numbers import MAX_LONG, MAX_SHORT

Release: TypeAlias = Literal["3.6.2", "3.8.1", "3.9.0", "3.9.1", "3.9.2", "4.0.1", "4.1.1", "4.2.0", "4.3.1", "4.4.0"]
RELEASES: tuple[Release, ...] = get_args(Release)  # the oldest first
REFERENCE: Release = "4.3.1"  # the release of every answer that names no other
OPTION = "--kafka"
_HOUR_MS = 3_600_000


class EmptiedBatch(Enum):
    """What becomes of the last batch of a cleaned range if it loses all of its records."""

    STAYS = "stays"
    GOES = "goes"
    STAYS_AT_HIGH_WATERMARK = "stays-at-high-watermark"


class MetadataLevels(Struct, frozen=True):
    """Levels of metadata.version (MetadataVersion): those that a release can read, and the highest for production."""

    lowest: int
    highest: int
    production: int


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


class Rules(Struct, frozen=True, kw_only=True):
    """What a release does where releases differ. docs/releases.md says what each of these means."""

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
    knows_messages_of_4_4: bool = False
    trims_every_index: bool = True
    metadata_levels: MetadataLevels = MetadataLevels(7, 31, 30)
    feature_levels: FeatureLevels = FeatureLevels()
    clears_elr: bool = True
    broker_record_version: int = 4
    counts_configured_brokers: bool = True
    names_every_listener: bool = True
    cleaner_stops_at_line_twice: bool = True
    promotes_future_logs: bool = True
    reads_zero_checkpoint: bool = False
    reads_whole_txn_version: bool = False
    has_zookeeper: bool = False
    has_dynamic_quorum: bool = True
    has_pre_vote: bool = True
    checks_lists: bool = True
    spells_reserved: bool = True
    updates_producers_as_java: bool = True
    forgets_unloaded_groups: bool = False
    passes_over_states: bool = True
    cordons_log_dirs: bool = True
    least_segment_bytes: int = 1 << 20
    deprecates_broker_id: bool = False


_V4_3_1 = Rules(release="4.3.1")
_V4_4_0 = replace(
    _V4_3_1,
    release="4.4.0",
    keeps_emptied_batch=EmptiedBatch.STAYS_AT_HIGH_WATERMARK,
    limits_decompressed_size=True,
    knows_messages_of_4_4=True,
    trims_every_index=False,
    metadata_levels=MetadataLevels(7, 34, 33),
    feature_levels=FeatureLevels(share_version=2),
    reads_zero_checkpoint=True,
    reads_whole_txn_version=True,
    deprecates_broker_id=True,
)
_V4_2_0 = replace(
    _V4_3_1,
    release="4.2.0",
    prints_as_java_tool=False,
    passes_over_states=False,
    cordons_log_dirs=False,
    broker_record_version=3,
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
    spells_reserved=False,
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
    least_segment_bytes=14,
    updates_producers_as_java=False,
    has_pre_vote=False,
    forgets_unloaded_groups=True,
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
_V3_6_2 = replace(
    _V3_8_1,
    release="3.6.2",
    finds_record_of_max=False,
    promotes_future_logs=False,
    broker_record_version=2,
    metadata_levels=MetadataLevels(1, 14, 14),
)
_RULES: Mapping[str, Rules] = {
    rules.release: rules
    for rules in (_V3_6_2, _V3_8_1, _V3_9_0, _V3_9_1, _V3_9_2, _V4_0_1, _V4_1_1, _V4_2_0, _V4_3_1, _V4_4_0)
}


def new_map_of_updates(rules: Rules) -> UpdatedProducers:
    """Return the map in which UnifiedLog of a release collects the producers that a set, or a load, updates."""
    return LongHashKeys() if rules.updates_producers_as_java else ScalaLongHashKeys()


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


def find_release(text: str) -> Release:
    """Return the release that a text names: `3.9.2`, or `3.9` for the newest patch that is known of 3.9.

    Raises KlogError, with the list of the known releases, for any other text.
    """
    for release in reversed(RELEASES):
        if text in (release, line_of(release)):
            return release
    raise KlogError(WrongWord.NO_RELEASE(word=text, releases=RELEASES))


def line_of(release: str) -> str:
    """Return the line of a release: `3.9` for `3.9.2`."""
    return release.rpartition(".")[0]
