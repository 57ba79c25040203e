"""Producers that go on after disks were restored, and whether a leader with an older copy takes what they send next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from klogtool.errors import Refused
from klogtool.fleet.collected import Collected, CopyFacts, ProducerFacts
from klogtool.fleet.forecast import Forecast
from klogtool.format.batch import NO_SEQUENCE, NO_TIMESTAMP, increment_sequence
from klogtool.format.producer_snapshot import ProducerStateEntry
from klogtool.format.producers import NO_COORDINATOR_EPOCH, ProducerState
from klogtool.log.producer_state import ProducerAppendInfo


class SequenceBehind(Struct, frozen=True, tag="sequence-behind"):
    """A producer whose next batch a broker refuses if it leads (OutOfOrderSequenceException). producer_epoch,
    last_sequence: what that broker's copy has of it; newest_*: what the newest copy has, which is that of newest_node.
    The producer may have sent more than any copy has."""

    producer_id: int
    topic: str
    partition: int
    node_id: int
    producer_epoch: int
    last_sequence: int
    newest_node: int
    newest_epoch: int
    newest_sequence: int


def find_behind(forecasts: Mapping[tuple[str, int], Forecast], files: Sequence[Collected]) -> Iterator[SequenceBehind]:
    """Yield each producer and broker, partition after partition."""
    copies: dict[tuple[str, int], list[tuple[int, CopyFacts]]] = defaultdict(list)
    for file in files:
        for copy in file.copies:
            if copy.producers and copy.state == "current":
                copies[copy.key].append((file.broker.node_id or 0, copy))
    for key, own in sorted(copies.items(), key=lambda item: item[0]):
        forecast = forecasts.get(key)
        if forecast is not None and len(own) > 1:
            yield from _behind(key, own, forecast)


def _behind(
    key: tuple[str, int], copies: Sequence[tuple[int, CopyFacts]], forecast: Forecast
) -> Iterator[SequenceBehind]:
    known: dict[int, list[tuple[int, ProducerFacts]]] = defaultdict(list)
    for node_id, copy in copies:
        for producer in copy.producers or ():
            known[producer.producer_id].append((node_id, producer))
    for producer_id, states in sorted(known.items()):
        newest_node, newest = max(states, key=lambda state: (state[1].epoch, state[1].last_offset))
        for node_id, state in states:
            if node_id in forecast.may_lead and is_refused(state, newest):
                yield SequenceBehind(
                    producer_id,
                    *key,
                    node_id,
                    state.epoch,
                    state.last_sequence,
                    newest_node,
                    newest.epoch,
                    newest.last_sequence,
                )


def is_refused(state: ProducerFacts, newest: ProducerFacts) -> bool:
    """Return whether a leader with this state refuses the batch that follows the newest one."""
    if (state.epoch, state.last_sequence) == (newest.epoch, newest.last_sequence):
        return False
    entry = ProducerStateEntry(
        state.producer_id,
        state.epoch,
        state.last_sequence,
        state.last_offset,
        0,
        NO_TIMESTAMP,
        NO_COORDINATOR_EPOCH,
        None,
    )
    following = 0 if newest.last_sequence == NO_SEQUENCE else increment_sequence(newest.last_sequence, 1)
    try:
        ProducerAppendInfo(ProducerState.of_snapshot(entry)).check_sequence(newest.epoch, following, 0)
    except Refused:
        return True
    return False
