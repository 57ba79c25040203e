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


def metadata_version_name(level: int) -> str:
    """Return `4.3-IV0` for level 30; for a level that klogtool does not know, the number."""
    return _NAMES[level - 1] if 0 < level <= len(_NAMES) else str(level)
