"""Wounded stores of Kafka's LocalTieredStorage, and wounded leader epochs of tiered logs: what `klogtool remote verify`
says that consumers do not get is what a consumer does not get."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from .local_tier import tiered
from .test_brokers_start_on_it import a_scratch_folder
from .tiers import TOPIC, Tier, compare_with_consumers, fill

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

VERSION, STORE = "4.3.1", "remote/kafka-tiered-storage"
Rows: TypeAlias = list[tuple[int, int]]


def _epochs_wrong(data: bytes) -> bytes:
    return data[:12] + (7).to_bytes(4, "big") + data[16:]  # the first batch: outside its CRC


WOUNDS: dict[str, Callable[[Tier], None]] = {
    "none": lambda _: None,
    "cut": lambda tier: tier.edit(lambda data: data[:-100]),
    "cut between batches": lambda tier: tier.edit(lambda data: data[: tier.batches()[-2][1]]),
    "empty": lambda tier: tier.edit(lambda _: b""),
    "gone": lambda tier: tier.path(1).unlink(),
    "logs exchanged": lambda tier: tier.exchange("log"),
    "all exchanged": lambda tier: tier.exchange("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint"),
    "index gone": lambda tier: tier.path(1, "index").unlink(),
    "time index gone": lambda tier: tier.path(1, "timeindex").unlink(),
    "snapshot gone": lambda tier: tier.path(1, "snapshot").unlink(),
    "epochs gone": lambda tier: tier.path(1, "leader_epoch_checkpoint").unlink(),
    "zeros behind": lambda tier: tier.edit(lambda data: data + bytes(100)),
    "first batch gone": lambda tier: tier.edit(lambda data: data[tier.batches()[0][1] :]),
    "batch in the middle gone": lambda tier: tier.edit(
        lambda data: data[: tier.batches()[2][0]] + data[tier.batches()[2][1] :]
    ),
    "the next segment behind": lambda tier: tier.edit(lambda data: data + tier.path(2).read_bytes()),
    "flipped": lambda tier: tier.edit(lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]),
    "index of another": lambda tier: tier.path(1, "index").write_bytes(tier.path(2, "index").read_bytes()),
    "epoch of a batch": lambda tier: tier.edit(_epochs_wrong),
    "deletion begun": lambda tier: tier.tell(2),
    "deletion of the first begun": lambda tier: tier.tell(2, 0),
    "one more without objects": lambda tier: tier.finish(1, *tier.span(1), copied=False),
    "one more with two of them": lambda tier: tier.finish(1, tier.span(1)[0], tier.span(2)[1], copied=True),
    "one more with two of them, without objects": lambda tier: tier.finish(1, 0, tier.span(2)[1], copied=False),
    "deletion ended": lambda tier: (tier.tell(2), tier.tell(3), None)[2],
}


def lines(change: Callable[[Rows], Rows]) -> Callable[[Tier], None]:
    """Change the lines of leader-epoch-checkpoint: (epoch, start offset)."""

    def wound(tier: Tier) -> None:
        file = tier.log_dir / f"{TOPIC}-{tier.number}" / "leader-epoch-checkpoint"
        rows = change([(int(epoch), int(start)) for epoch, start in map(str.split, file.read_text().splitlines()[2:])])
        file.write_text("".join(f"{line}\n" for line in ["0", len(rows), *(f"{epoch} {at}" for epoch, at in rows)]))

    return wound


def moved(n: int, epoch: int, offset: int) -> Callable[[Tier], None]:
    return lines(lambda rows: [*rows[:n], (rows[n][0] + epoch, rows[n][1] + offset), *rows[n + 1 :]])


def both(one: Callable[[Tier], None], other: Callable[[Tier], None]) -> Callable[[Tier], None]:
    return lambda tier: (one(tier), other(tier), None)[2]


ELECTIONS = (8, 17, 26)  # each begins within a segment
LINEAGE_WOUNDS: dict[str, Callable[[Tier], None]] = {
    "none": lambda _: None,
    "first gone": lines(lambda rows: rows[1:]),
    "second gone": lines(lambda rows: rows[:1] + rows[2:]),
    "last gone": lines(lambda rows: rows[:-1]),
    "last two gone": lines(lambda rows: rows[:-2]),
    "first two gone": lines(lambda rows: rows[2:]),
    "only the first": lines(lambda rows: rows[:1]),
    "only the last": lines(lambda rows: rows[-1:]),
    "none left": lines(lambda _: []),
    "no file": lambda tier: (tier.log_dir / f"{TOPIC}-{tier.number}" / "leader-epoch-checkpoint").unlink(),
    "second later": moved(1, 0, 3),
    "second earlier": moved(1, 0, -3),
    "third earlier": moved(2, 0, -3),
    "all higher": lines(lambda rows: [(epoch + 50, start) for epoch, start in rows]),
    "second is another": moved(1, 1, 0),
    "first is another": moved(0, 1, 0),
    "first later": moved(0, 0, 4),
    "one more that ends earlier": lambda tier: tier.finish(1, tier.span(1)[0], tier.span(1)[1] - 3, copied=True),
    "one more that begins later": lambda tier: tier.finish(1, tier.span(1)[0] + 2, tier.span(1)[1], copied=True),
    "first gone, and a deletion begun": both(lines(lambda rows: rows[1:]), lambda tier: tier.tell(2)),
}


def test_consumers_do_not_get_what_verify_says() -> None:
    with a_scratch_folder() as work, tiered(VERSION, work) as broker:
        fill(broker, len(WOUNDS))
        compare_with_consumers(broker, work, work / STORE, WOUNDS)


def test_a_consumer_that_begins_at_an_offset_gets_what_leader_epochs_and_segments_let_it() -> None:
    with a_scratch_folder() as work, tiered(VERSION, work) as broker:
        fill(broker, len(LINEAGE_WOUNDS), ELECTIONS)
        compare_with_consumers(broker, work, work / STORE, LINEAGE_WOUNDS, alone=True)
