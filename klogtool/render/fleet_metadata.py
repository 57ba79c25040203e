"""The answer of fleet metadata, as a row and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from klogtool.broker.releases import Release
from klogtool.escape import as_paragraph, quoted
from klogtool.fleet.metadata import (
    CLEANED,
    GIVEN,
    HOLD,
    INTERNAL_TOPIC,
    KNOWN,
    Damaged,
    NotAdopted,
    Rebuilt,
    Topic,
)
from klogtool.fleet.metadata_records import snapshot_name
from klogtool.render.plans import wrapped_table
from klogtool.render.words import count_text, in_words, words

MOST_SHOWN = 20  # rows of one table
UNKNOWN = (
    "access rules (ACLs)",
    "client quotas",
    "SCRAM credentials and delegation tokens",
    "dynamic settings of brokers and of the cluster",
    "settings of topics, but those that are listed with a reason",
    "levels of features, such as transaction.version",
    "topics that no collected disk has a copy of, and partitions above the highest that one has",
    "replicas on disks that were not collected",
)
_WHYS = {
    GIVEN: "settings as given",
    KNOWN: "settings by a broker's metadata",
    INTERNAL_TOPIC: "settings by default",
    CLEANED: "compacted",
    HOLD: "keeps all",
}
NOT_WRITTEN = "Nothing was written. --output DIR writes the snapshot into a new folder."


def metadata_row(rebuilt: Rebuilt, kafka: Release, output: str | None, size: int) -> dict[str, object]:
    """Return the answer. output: the folder that was written, or None. size: bytes of the snapshot."""
    return {
        "type": "answer",
        "command": "fleet metadata",
        "kafka": kafka,
        "output": output,
        "snapshot": snapshot_name(rebuilt),
        "size": size,
        "cluster_id": rebuilt.cluster_id,
        "brokers": sorted(rebuilt.brokers),
        "features": dict(rebuilt.features),
        "next_producer_id": rebuilt.next_producer_id,
        "voters": [voter.id for voter in rebuilt.voters],
        "topics": in_words(rebuilt.topics),
        "not_adopted": in_words(rebuilt.not_adopted),
        "damaged": in_words(rebuilt.damaged),
        "renamings": in_words(rebuilt.renamings),
        "guessed": list(map(words, rebuilt.guessed)),
        "unknown": list(UNKNOWN),
    }


@as_paragraph
def metadata_text(rebuilt: Rebuilt, output: str | None, size: int) -> Iterator[str]:
    """Return what was rebuilt, chosen and not known, for people."""
    partitions = [partition for topic in rebuilt.topics for partition in topic.partitions]
    yield (
        f"Cluster {rebuilt.cluster_id}: {count_text(len(rebuilt.topics), 'topic')}, "
        f"{count_text(len(partitions), 'partition')}, {count_text(len(rebuilt.brokers), 'broker')}"
    )
    yield from _table("", map(_topic_cells, rebuilt.topics))
    yield from _table("NO COPY of these partitions: they begin empty", _new_cells(rebuilt.topics))
    yield from _table("Behind: these copies are shorter, and follow", _behind_cells(rebuilt.topics))
    yield from _table("SET by klogtool, because no disk says it", ((words(guess),) for guess in rebuilt.guessed))
    yield from _table("UNKNOWN: set these again before clients come back", ((line,) for line in UNKNOWN))
    damaged = (
        (_folder(one), f"sound up to offset {one.sound_end_offset:,}, its end is {one.log_end_offset:,}")
        for one in rebuilt.damaged
    )
    yield from _list("DAMAGED: run klogtool fleet plan first, which saves more", damaged)
    left = ((_folder(one), words(one.why)) for one in rebuilt.not_adopted)
    yield from _list("NOT ADOPTED: these folders stay as they are", left)
    if rebuilt.renamings:  # all of them: they are commands to run
        yield from ["", "RENAME before these brokers start"]
        for one in rebuilt.renamings:
            old, new = (quoted(f"{one.log_dir}/{name}") for name in (one.folder, one.to))
            yield f"  broker {one.broker}: mv -n {old} {new}"
    yield ""
    if output is None:
        yield NOT_WRITTEN
    else:
        yield f"{quoted(output)}: {snapshot_name(rebuilt)}, {count_text(size, 'byte')}"
        yield "Put it on EVERY controller as __cluster_metadata-0, before any of them starts."


def _table(heading: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    results = list(rows)
    if results:
        yield from ["", heading] if heading else []
        yield from wrapped_table(results[:MOST_SHOWN])
        yield from _rest(len(results))


def _list(heading: str, items: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield items of one or two lines with paths, which are never wrapped."""
    results = list(items)
    if results:
        yield from ["", heading]
        for first, *more in results[:MOST_SHOWN]:
            yield from [f"  {first}", *(f"      {line}" for line in more)]
        yield from _rest(len(results))


def _rest(count: int) -> Iterator[str]:
    if count > MOST_SHOWN:
        yield f"  ... and {count - MOST_SHOWN:,} more: --format json has all"


def _topic_cells(topic: Topic) -> tuple[str, ...]:
    copies = max(len(partition.replicas) for partition in topic.partitions)
    whys = dict.fromkeys(setting.why for setting in topic.settings)
    sizes = f"{count_text(len(topic.partitions), 'partition')} x {copies}"
    return topic.name, topic.topic_id, sizes, ", ".join(_WHYS[why] for why in whys) or "Kafka's defaults"


def _new_cells(topics: Iterable[Topic]) -> Iterator[tuple[str, ...]]:
    for topic in topics:
        numbers = [str(partition.partition) for partition in topic.partitions if partition.is_new]
        if numbers:
            yield topic.name, ", ".join(numbers)


def _behind_cells(topics: Iterable[Topic]) -> Iterator[tuple[str, ...]]:
    for topic in topics:
        for partition in topic.partitions:
            for one in partition.behind:
                where = f"broker {one.broker} ends at {one.end_offset:,}, broker {partition.leader} at {one.leads_to:,}"
                yield f"{topic.name}-{partition.partition}", where


def _folder(one: Damaged | NotAdopted) -> str:
    return f"broker {one.broker}: {one.log_dir}/{one.folder}"
