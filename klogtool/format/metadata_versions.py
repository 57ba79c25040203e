"""The names of the levels of metadata.version, which a FeatureLevelRecord has as a number (MetadataVersion).

Brokers of 4.3.1 know the levels 7 to 31, those of 4.4.0 the levels 7 to 34.
"""

from __future__ import annotations

METADATA_VERSION = "metadata.version"  # the name of the feature
# Each release line and how many levels it has, from level 1 on. 3.0 had no level IV0.
_LINES = (
    ("3.1", 1),
    ("3.2", 1),
    ("3.3", 4),
    ("3.4", 1),
    ("3.5", 3),
    ("3.6", 3),
    ("3.7", 5),
    ("3.8", 1),
    ("3.9", 1),
    ("4.0", 4),
    ("4.1", 2),
    ("4.2", 2),
    ("4.3", 1),
    ("4.4", 3),
    ("4.5", 1),
)
_NAMES = ("3.0-IV1", *(f"{line}-IV{n}" for line, count in _LINES for n in range(count)))


# Before KRaft, as levels of inter.broker.protocol.version. The first four had no IV.
_OLDEST = ("0.8.0", "0.8.1", "0.8.2", "0.9.0")
_OLD_LINES = (
    ("0.10.0", 2),
    ("0.10.1", 3),
    ("0.10.2", 1),
    ("0.11.0", 3),
    ("1.0", 1),
    ("1.1", 1),
    ("2.0", 2),
    ("2.1", 3),
    ("2.2", 2),
    ("2.3", 2),
    ("2.4", 2),
    ("2.5", 1),
    ("2.6", 1),
    ("2.7", 3),
    ("2.8", 2),
)
_BEFORE_KRAFT = frozenset(
    (
        *_OLDEST,
        *(line for line, _ in _OLD_LINES),
        *(f"{line}-IV{n}" for line, count in _OLD_LINES for n in range(count)),
        "3.0-IV0",
    )
)
_OF_OLD_NAMES, _PARTS, _OLD_PARTS = "0.", 2, 3


def is_level_before_kraft(text: str, most: int, most_released: int) -> bool | None:
    """Return whether a value of inter.broker.protocol.version is a level without KRaft; None if it is no level
    (MetadataVersion.fromVersionString). most: the highest level of the release; most_released: that is no test."""
    parts = text.split(".")
    name = ".".join(parts[: _OLD_PARTS if text.startswith(_OF_OLD_NAMES) else _PARTS])
    known = {*_NAMES[:most], *(each.partition("-")[0] for each in _NAMES[:most_released])}
    return True if name in _BEFORE_KRAFT else False if name in known else None


def metadata_version_name(level: int) -> str:
    """Return `4.3-IV0` for level 30; for a level that klogtool does not know, the number."""
    return _NAMES[level - 1] if 0 < level <= len(_NAMES) else str(level)
