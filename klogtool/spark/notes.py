"""Lines for the log of a Spark job: names from a disk are escaped, since the log may be a terminal."""

from __future__ import annotations

import logging

from klogtool.escape import escaped

_LOGGER = logging.getLogger("klogtool.spark")


def log_warning(text: object) -> None:
    """One line that somebody should see."""
    _LOGGER.warning("%s", escaped(str(text)))


def log_info(text: object) -> None:
    """One line for those who look for it."""
    _LOGGER.info("%s", escaped(str(text)))
