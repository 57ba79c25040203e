"""The order of troubles and of options: the worst trouble first, the cheapest option first; options are numbered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from klogtool.doctor.answers import ORDER, Option, Strategy, Trouble

_RANKS = {what: rank for rank, what in enumerate(ORDER)}
_STRATEGIES = {strategy: rank for rank, strategy in enumerate(Strategy)}


def in_order(troubles: Iterable[Trouble]) -> tuple[Trouble, ...]:
    """Return the troubles, the worst first, with the numbers of their options."""
    ordered = sorted(troubles, key=lambda trouble: (_rank(trouble), -_lost(trouble), trouble.path))
    return tuple(_numbered(ordered))


def _rank(trouble: Trouble) -> int:
    return min(_RANKS[point.what] for point in trouble.ahead)


def _lost(trouble: Trouble) -> int:
    return sum(point.lost_records for point in trouble.ahead)


def _numbered(troubles: Iterable[Trouble]) -> Iterator[Trouble]:
    number = 0
    for trouble in troubles:
        options = sorted(trouble.options, key=_price)
        yield replace(trouble, options=tuple(replace(option, number=number + n) for n, option in enumerate(options, 1)))
        number += len(options)


def _price(option: Option) -> tuple[bool, int, int]:
    """Sort key: what is lost; of options that lose the same, the safer strategy. Unknown losses come last, but salvage
    never keeps less than the broker, and a plan that only gives names and ids back is there to lose nothing. What
    removes the only witness of a loss is the very last."""
    is_sparing = bool(option.remedies) and option.strategy in (Strategy.NOTHING_LOST, Strategy.DAMAGED_ONLY)
    most = 0 if is_sparing else 1 << 62
    lost = most if option.lost_records is None else option.lost_records
    return option.erases_witness, lost, _STRATEGIES[option.strategy]
