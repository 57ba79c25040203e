"""What is rebuilt of a lost `__cluster_metadata`: which ids, replicas, leaders and settings, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from klogtool.errors import Refused
from klogtool.fleet.collected import BrokerFacts, Collected, CopyFacts, Epoch, LogDirFacts, MetadataFacts, TopicFacts
from klogtool.fleet.metadata import EPOCH_MARGIN, MARGIN, UNASSIGNED, SnapshotPartition, Topic, Wishes, rebuild
from klogtool.fleet.metadata_records import snapshot_bytes, walk_records
from klogtool.format.internal.records import ApiMessage
from klogtool.render.words import words

OLD, NEW, OTHER = (letter * 22 for letter in "ONX")
NOTHING = "0" * 32
NOW = 1_700_000_000_000


def copy(name: str, end: int = 10, *, epoch: int = 0, **more: Any) -> CopyFacts:
    """A sound copy of `topic-partition` with one leader epoch."""
    topic, _, number = name.rpartition("-")
    state = more.pop("state", "current")
    folder = name if state == "current" else f"{name}.{NOTHING}-{state}"
    topic_id = OLD if topic == "t" else f"{len(topic):022d}"
    facts = {"topic_id": topic_id, "log_end_offset": end, "sound_end_offset": end, "epochs": (Epoch(epoch, 0),), **more}
    return CopyFacts(topic, int(number), "/data", folder, state, NOTHING, **facts)


def broker(node: int, *copies: CopyFacts, cluster: str | None = "C", **more: Any) -> Collected:
    """What was collected of a broker with one log dir."""
    log_dir = LogDirFacts("/data", node, cluster, str(node) * 22, 1, is_clean=True, broker_epoch=node + 10)
    facts = BrokerFacts(1, node, cluster, (log_dir,), more.pop("metadata", None))
    return Collected(facts, copies=copies, path=f"{node}.klog", **more)


def topics(*brokers: Collected, **wishes: Any) -> dict[str, Topic]:
    """The topics that are rebuilt, by name."""
    return {topic.name: topic for topic in rebuild(brokers, Wishes(now_ms=NOW, **wishes)).topics}


def only_partition(*brokers: Collected, **wishes: Any) -> SnapshotPartition:
    """The only partition that is rebuilt."""
    ((partition,),) = (topic.partitions for topic in topics(*brokers, **wishes).values())
    return partition


def settings(topic: Topic) -> Mapping[str, str]:
    """A topic's settings."""
    return {setting.name: setting.value for setting in topic.settings}


def records(*brokers: Collected, name: str, **wishes: Any) -> list[ApiMessage]:
    """The records of one kind."""
    return [record for record in walk_records(rebuild(brokers, Wishes(now_ms=NOW, **wishes))) if record.name == name]


def test_a_topic_keeps_its_id_and_its_replicas_on_their_disks() -> None:
    found = topics(broker(1, copy("t-0")), broker(2, copy("t-0"), copy("t-1")))["t"]
    assert found.topic_id == OLD
    assert [sorted(partition.replicas) for partition in found.partitions] == [[1, 2], [2]]
    both = found.partitions[0]
    assert dict(zip(both.replicas, both.directories, strict=True)) == {1: "1" * 22, 2: "2" * 22}


def test_the_most_complete_copy_leads_by_leader_epoch_before_the_end() -> None:
    longest = only_partition(broker(1, copy("t-0", 10)), broker(2, copy("t-0", 12)), broker(3, copy("t-0", 11)))
    assert (longest.complete, longest.leader) == ((2,), 2)
    assert [(one.broker, one.end_offset) for one in longest.behind] == [(1, 10), (3, 11)]
    newest = only_partition(broker(1, copy("t-0", 99, epoch=4)), broker(2, copy("t-0", 12, epoch=5)))
    assert (newest.complete, newest.end_offset) == ((2,), 12)


def test_a_copy_counts_up_to_its_first_damage() -> None:
    damaged = copy("t-0", 20, sound_end_offset=5)
    found = rebuild([broker(1, damaged), broker(2, copy("t-0", 9))], Wishes(now_ms=NOW))
    assert found.topics[0].partitions[0].complete == (2,)
    assert [(one.broker, one.sound_end_offset, one.log_end_offset) for one in found.damaged] == [(1, 5, 20)]


def test_of_two_histories_as_long_one_leads() -> None:
    """What broker 1 wrote from offset 5 on is not what broker 2 has there, although both end at 10."""
    one = copy("t-0", 10, epochs=(Epoch(0, 0), Epoch(2, 5)))
    assert only_partition(broker(1, copy("t-0", 10)), broker(2, one)).complete == (2,)


def test_the_leader_epoch_is_above_every_one_on_a_disk() -> None:
    found = only_partition(broker(1, copy("t-0", 9, epoch=3)), broker(2, copy("t-0", 5, epoch=2)))
    assert found.leader_epoch == 3 + EPOCH_MARGIN


def test_leaders_spread_over_brokers_that_are_as_complete() -> None:
    names = [f"t-{n}" for n in range(3)]
    found = topics(*(broker(node, *map(copy, names)) for node in (1, 2, 3)))["t"]
    assert sorted(partition.complete[0] for partition in found.partitions) == [1, 2, 3]


def test_a_partition_without_a_copy_begins_empty_with_as_many_replicas() -> None:
    _, middle, _ = topics(*(broker(node, copy("t-0"), copy("t-2")) for node in (1, 2)))["t"].partitions
    assert middle.is_new
    assert (sorted(middle.replicas), middle.directories) == ([1, 2], (UNASSIGNED, UNASSIGNED))


def test_a_partition_number_that_no_topic_has_is_refused() -> None:
    with pytest.raises(Refused, match="has a copy of partition 2,147,483,647"):
        rebuild([broker(1, copy("t-2147483647"))], Wishes(now_ms=NOW))


def test_of_two_ids_the_one_with_the_newest_record_is_taken_and_the_other_told() -> None:
    found = rebuild(
        [broker(1, copy("t-0", newest_timestamp=5)), broker(2, copy("t-0", topic_id=NEW, newest_timestamp=9))],
        Wishes(now_ms=NOW),
    )
    assert [(topic.topic_id, topic.partitions[0].replicas) for topic in found.topics] == [(NEW, (2,))]
    (left,) = found.not_adopted
    assert (left.broker, words(left.why)) == (1, f"its topic id is {OLD}, the snapshot's is {NEW}")


def test_a_given_id_is_taken_and_must_be_there() -> None:
    brokers = broker(1, copy("t-0", newest_timestamp=5)), broker(2, copy("t-0", topic_id=NEW, newest_timestamp=9))
    assert topics(*brokers, topic_ids={"t": OLD})["t"].topic_id == OLD
    with pytest.raises(Refused, match=f"no copy of t has the topic id {OTHER}"):
        rebuild(brokers, Wishes(now_ms=NOW, topic_ids={"t": OTHER}))


@pytest.mark.parametrize(
    ("left", "why"),
    [
        (copy("t-0", state="delete"), "being deleted"),
        (copy("t-0", state="future"), "not finished"),
        (copy("t-0", state="stray"), "--adopt-stray"),
        (copy("t-0", topic_id=None), "partition.metadata"),
        (copy("t-0", problem="permission denied"), "permission denied"),
        (copy("a b-0"), "no topic can have this name"),
        (copy("\udcff-0"), "no topic can have this name"),
    ],
    ids=["delete", "future", "stray", "no-id", "unread", "blank", "bytes"],
)
def test_what_is_not_adopted_is_told(left: CopyFacts, why: str) -> None:
    found = rebuild([broker(1, left, copy("u-0"))], Wishes(now_ms=NOW, adopt_stray=False))
    assert [topic.name for topic in found.topics] == ["u"]
    assert why in words(found.not_adopted[0].why)


def test_a_folder_that_was_set_aside_gets_its_name_back() -> None:
    found = rebuild(
        [broker(1, copy("t-0", state="stray")), broker(2, copy("t-0"))], Wishes(now_ms=NOW, adopt_stray=True)
    )
    assert sorted(found.topics[0].partitions[0].replicas) == [1, 2]
    (renaming,) = found.renamings
    assert (renaming.broker, renaming.folder, renaming.to) == (1, f"t-0.{NOTHING}-stray", "t-0")


def test_a_set_aside_topic_and_a_new_one_of_its_name_are_the_users_choice() -> None:
    brokers = [broker(1, copy("t-0", state="stray"), copy("t-0", topic_id=NEW))]
    with pytest.raises(Refused, match="t has a folder that was set aside") as refused:
        rebuild(brokers, Wishes(now_ms=NOW, adopt_stray=True))
    assert refused.value.cure == "Say which one is wanted: --topic-id t=ID."
    assert topics(*brokers, adopt_stray=True, topic_ids={"t": OLD})["t"].topic_id == OLD


def test_of_two_copies_on_one_broker_the_better_one_is_taken() -> None:
    found = rebuild([broker(1, copy("t-0", 5), copy("t-0", 9))], Wishes(now_ms=NOW))
    assert found.topics[0].partitions[0].end_offset == 9
    assert "a better copy" in words(found.not_adopted[0].why)


def test_nothing_is_deleted_until_somebody_sets_retention() -> None:
    held = {"retention.ms": "-1", "retention.bytes": "-1"}
    assert settings(topics(broker(1, copy("t-0")))["t"]) == held
    assert settings(topics(broker(1, copy("t-0")), hold=False)["t"]) == {}
    given = topics(broker(1, copy("t-0")), settings={"t": {"retention.ms": "5"}})["t"]
    assert settings(given) == {**held, "retention.ms": "5"}


def test_sections_of_a_file_fit_topics_by_pattern() -> None:
    wishes = {"sections": (("t*", {"retention.ms": "7"}), ("tt", {"retention.ms": "8"}))}
    found = topics(broker(1, copy("t-0"), copy("tt-0"), copy("u-0")), **wishes)
    assert [settings(found[name])["retention.ms"] for name in ("t", "tt", "u")] == ["7", "8", "-1"]


def test_a_line_of_the_cleaner_proves_compaction_and_gaps_do_not() -> None:
    found = rebuild(
        [broker(1, copy("proved-0", cleaner_offset=4), copy("gaps-0", is_compacted=True))], Wishes(now_ms=NOW)
    )
    by_name = {topic.name: settings(topic) for topic in found.topics}
    assert by_name["proved"]["cleanup.policy"] == "compact"
    assert "cleanup.policy" not in by_name["gaps"]
    guessed = list(map(words, found.guessed))
    assert "gaps: the log looks compacted, but nothing proves it, so cleanup.policy is not set" in guessed


def test_internal_topics_are_as_brokers_create_them() -> None:
    found = topics(broker(1, copy("__consumer_offsets-0"), copy("__transaction_state-0")))
    assert settings(found["__consumer_offsets"])["cleanup.policy"] == "compact"
    # With one replica, nobody could write with min.insync.replicas=2.
    assert settings(found["__transaction_state"])["min.insync.replicas"] == "1"


def test_brokers_of_other_clusters_and_a_broker_named_twice_are_refused() -> None:
    with pytest.raises(Refused, match="different clusters"):
        rebuild([broker(1, copy("t-0")), broker(2, copy("t-0"), cluster="D")], Wishes(now_ms=NOW))
    with pytest.raises(Refused, match="two files are of broker 1"):
        rebuild([broker(1, copy("t-0"))] * 2, Wishes(now_ms=NOW))
    with pytest.raises(Refused, match=r"meta\.properties is missing"):
        rebuild([broker(1, copy("t-0"), cluster=None)], Wishes(now_ms=NOW))


@pytest.mark.parametrize("wishes", [{"settings": {"tt": {"retention.ms": "5"}}}, {"topic_ids": {"tt": OLD}}])
def test_a_topic_that_no_disk_has_may_be_misspelt(wishes: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="something is given for topic tt"):
        rebuild([broker(1, copy("t-0"))], Wishes(now_ms=NOW, **wishes))


def test_disks_without_a_partition_are_refused() -> None:
    with pytest.raises(Refused, match="no file has a partition dir"):
        rebuild([broker(1, copy("t-0", state="delete"))], Wishes(now_ms=NOW))


def test_metadata_that_is_still_there_is_better() -> None:
    metadata = {"metadata": MetadataFacts("/data", 500), "topics": (TopicFacts("t", OLD, {"retention.ms": "3"}),)}
    alive = broker(1, copy("t-0"), **metadata)
    with pytest.raises(Refused, match="still has __cluster_metadata up to offset 500"):
        rebuild([alive], Wishes(now_ms=NOW))
    assert settings(topics(alive, rebuild_anyway=True)["t"]) == {"retention.ms": "3"}
    longer = broker(2, copy("t-0"), **metadata | {"metadata": MetadataFacts("/longer", 900, epoch=1)})
    later = broker(3, copy("t-0"), **metadata | {"metadata": MetadataFacts("/later", 600, epoch=2, voters=(1, 2, 3))})
    with pytest.raises(Refused, match="up to offset 600 in /later, the most complete") as refused:
        rebuild([alive, longer, later], Wishes(now_ms=NOW))
    assert "voters are 1, 2, 3" in (refused.value.cure or "")
    # Metadata of a new cluster, started by mistake, knows none of the old topics.
    rebuild([broker(1, copy("t-0", topic_id=NEW), **metadata)], Wishes(now_ms=NOW))


def test_numbers_that_must_not_come_twice_begin_at_the_time() -> None:
    found = rebuild([broker(7, copy("t-0"), metadata=MetadataFacts("/data", 30))], Wishes(now_ms=NOW))
    assert (found.offset, found.epoch, found.next_producer_id) == (NOW, NOW // 60_000, NOW * 1000)
    ahead = rebuild([broker(7, copy("t-0"), metadata=MetadataFacts("/data", NOW + 5))], Wishes(now_ms=NOW))
    assert ahead.offset == NOW + 5 + MARGIN
    assert rebuild([broker(7, copy("t-0"))], Wishes(now_ms=NOW, next_producer_id=5)).next_producer_id == 5


def test_numbers_that_no_broker_writes_do_no_harm() -> None:
    highest = (1 << 63) - 1
    metadata = MetadataFacts("/data", highest)
    far = rebuild([broker(7, copy("t-0", highest), metadata=metadata)], Wishes(now_ms=NOW))
    assert snapshot_bytes(far, NOW)
    wild = copy("t-0", epoch=(1 << 31) - 1)
    found = rebuild([broker(1, wild, copy("t-0")), broker(2, copy("t-0"))], Wishes(now_ms=NOW))
    assert "impossible" in words(found.not_adopted[0].why)


def test_two_topics_with_one_id_are_refused() -> None:
    with pytest.raises(Refused, match="t and u have the same topic id"):
        rebuild([broker(1, copy("t-0"), copy("u-0", topic_id=OLD))], Wishes(now_ms=NOW))


@pytest.mark.parametrize(("release", "level", "version"), [("3.6.2", 14, 0), ("3.9.2", 21, 1), ("4.3.1", 30, 2)])
def test_records_have_the_version_of_the_level(release: str, level: int, version: int) -> None:
    (partition,) = records(broker(1, copy("t-0")), name="PartitionRecord", release=release)
    assert partition.version == version
    assert ("directories" in partition.values) == (version > 0)
    levels = {
        one.values["name"]: one.values["featureLevel"]
        for one in records(broker(1, copy("t-0")), name="FeatureLevelRecord", release=release)
    }
    assert levels["metadata.version"] == level
    assert ("transaction.version" in levels) == (level > 23)


def test_a_level_that_the_release_does_not_know_is_refused() -> None:
    with pytest.raises(Refused, match=r"Kafka 3\.9\.2 does not know level 30"):
        rebuild([broker(1, copy("t-0"))], Wishes(now_ms=NOW, release="3.9.2", features={"metadata.version": 30}))


def test_with_eligible_leaders_every_complete_copy_may_lead() -> None:
    """Brokers that stopped cleanly are known by their epochs; else a controller takes them out of the ELR."""
    elr = {"features": {"eligible.leader.replicas.version": 1}}
    brokers = broker(1, copy("t-0")), broker(2, copy("t-0")), broker(3, copy("t-0", 5))
    (partition,) = records(*brokers, name="PartitionRecord", **elr)
    told = partition.values
    assert (told["leader"], told["isr"], told["eligibleLeaderReplicas"]) == (1, [1], [2])
    registered = records(*brokers, name="RegisterBrokerRecord", **elr)
    assert [(one.version, one.values["brokerId"], one.values["brokerEpoch"]) for one in registered] == [
        (4, 1, 11),
        (4, 2, 12),
        (4, 3, 13),
    ]
    assert records(*brokers, name="RegisterBrokerRecord") == []
    (partition,) = records(*brokers, name="PartitionRecord")
    assert (partition.values["leader"], partition.values["isr"]) == (-1, [1])
