"""Lines for the log of a Spark job: names from a disk are escaped, since the log may be a terminal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from klogtool.escape import escaped

_LOGGER = logging.getLogger("klogtool.spark")


@contextmanager
def notes_elsewhere() -> Iterator[None]:
    """In this context, lines that nobody listens to are not printed: the result says the same."""
    silence = logging.NullHandler()
    _LOGGER.addHandler(silence)
    try:
        yield
    finally:
        _LOGGER.removeHandler(silence)


def log_warning(text: object) -> None:
    """Log a line that the user should see."""
    _LOGGER.warning("%s", escaped(str(text)))


def log_mended(error: object) -> None:
    """Log damage that is read all the same."""
    log_warning(f"damaged, but read: {error}")


def log_info(text: object) -> None:
    """Log a line for those who search the log."""
    _LOGGER.info("%s", escaped(str(text)))
