"""Faults in batches: fields outside of the CRC, fields with a CRC made right, batches left out, doubled, reversed."""

from __future__ import annotations

from collections.abc import Callable

from kafka.layout import BATCH, Entry, put, sealed, walk, with_field

from .disks import Disks, Fault

# A field, and what becomes of it: a number, or one to add to it.
OUTSIDE_OF_THE_CRC = {
    "base_offset": (("add", -1), ("add", 1), ("add", -30), ("add", 40), ("add", 3000000000)),
    "partition_leader_epoch": (("be", 0), ("be", 77), ("be", -1), ("be", 1)),
    "length": (("be", 0), ("be", 13), ("be", 48), ("be", 60), ("be", -1), ("be", 100000)),
    "magic": (("be", 0), ("be", 1), ("be", 3)),
}
UNDER_THE_CRC = {
    "records_count": (("be", 0), ("be", 1), ("be", 100), ("be", -1)),
    "last_offset_delta": (("be", 0), ("be", 100), ("be", -1)),
    "producer_id": (("be", -1), ("be", 5)),
    "producer_epoch": (("be", -1), ("add", 1), ("add", -1), ("be", 32767)),
    "base_sequence": (("be", -1), ("add", 7), ("be", 0), ("add", -1)),
    "base_timestamp": (("be", -1), ("add", 10**13), ("be", 0)),
    "max_timestamp": (("be", -1), ("add", 10**13), ("be", 0)),
    # Another codec or none, the time of the append, of a transaction, a marker, a delete horizon, bits without meaning.
    "attributes": (("be", 0), ("add", 1), ("be", 7), ("add", 8), ("add", 16), ("add", 32), ("add", 64), ("add", 128)),
}


def change_field(disks: Disks) -> str:
    return _change(disks, OUTSIDE_OF_THE_CRC, is_sealed=False)


def change_field_under_the_crc(disks: Disks) -> str:
    """What a broken producer, or a rewriting proxy, can have sent: the CRC is right."""
    return _change(disks, UNDER_THE_CRC, is_sealed=True)


def _change(disks: Disks, fields: dict[str, tuple[tuple[str, int], ...]], *, is_sealed: bool) -> str:
    log = disks.log()
    data = log.read_bytes()
    entry = disks.rng.choice(walk(data))
    name = disks.rng.choice(list(fields))
    how, number = disks.rng.choice(fields[name])
    at, size = BATCH[name]  # also if an earlier fault made it a message of old
    value = number if how == "be" else int.from_bytes(entry.data[at : at + size], "big", signed=True) + number
    changed = with_field(entry.data, BATCH, name, value)
    changed = sealed(changed, length=False) if is_sealed else changed
    log.write_bytes(put(data, entry.position, changed))
    return f"{name} {value} in the batch at {entry.position} of {disks.name(log)}{', CRC right' * is_sealed}"


def leave_out_batch(disks: Disks) -> str:
    return _rearranged(disks, "leave out", lambda entries, at: entries.pop(at))


def double_batch(disks: Disks) -> str:
    return _rearranged(disks, "double", lambda entries, at: entries.insert(at, entries[at]))


def reverse_batches(disks: Disks) -> str:
    def reverse(entries: list[Entry], at: int) -> None:
        at = max(1, at)
        entries[at - 1 : at + 1] = entries[at], entries[at - 1]

    return _rearranged(disks, "reverse", reverse)


def _rearranged(disks: Disks, told: str, change: Callable[[list[Entry], int], object]) -> str:
    log = disks.log()
    entries = walk(log.read_bytes())
    at = disks.rng.randrange(len(entries))
    rest = log.read_bytes()[entries[-1].end :]
    change(entries, at)
    log.write_bytes(b"".join(entry.data for entry in entries) + rest)
    return f"{told} batch {at} of {disks.name(log)}"


MENU: list[tuple[Fault, float]] = [
    (change_field, 4),
    (change_field_under_the_crc, 3),
    (leave_out_batch, 1.5),
    (double_batch, 1.5),
    (reverse_batches, 1.5),
]
