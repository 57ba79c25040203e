"""Places in a spec, in front of what is wrong there: `partitions[0].log[3]: ...`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from klogtool.errors import AboveLimit, KlogError


class WrongSpec(KlogError):
    """Something in a spec is wrong, or a broker would not do it. place: where. why: the reason without the place."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(f"{place}: {why}")
        self.place, self.why = place, why


@contextmanager
def at_place(place: str) -> Iterator[None]:
    """Put a place in front of an error. A refusal of Kafka is an error of the spec here; a limit stays one."""
    try:
        yield
    except AboveLimit:
        raise
    except WrongSpec as error:
        raise WrongSpec(f"{place}.{error.place}", error.why) from error
    except KlogError as error:
        raise WrongSpec(place, error.reason) from error
