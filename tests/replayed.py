"""What a replay of producers knows of some bytes of a log, all of it, to be compared."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from klogtool.format.producer_replay import ProducerReplay, ReplayStop
from klogtool.log.producer_replay import replay_window

MOST_STOPS = 10_000


def replayed(
    replay: ProducerReplay, data: memoryview, cut: int, marks: Iterable[int], producer_ids: Iterable[int]
) -> tuple[Any, ...]:
    """Where it stopped, and what it told; at each mark it loses track."""
    stops = []
    for halt in islice(replay_window(replay, data, cut, sorted(marks, reverse=True)), MOST_STOPS):
        stops.append(halt)
        if halt.why == ReplayStop.MARK:
            replay.lose_track()
    known = [replay.find(producer_id) for producer_id in producer_ids]
    return stops, replay.fetch_aborted(), replay.fetch_lone_aborts(), replay.open_txns(), known
