#!/usr/bin/env python3
"""Every single bit of small log dirs, flipped one by one, through `klogtool verify --deep`: `flips.py [--jobs N]`.

A flip is seen, or of a class that docs/verify.md tells of; found is any other one. About ten milliseconds a flip.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import damaged  # noqa: F401  first: it makes the modules of tests/ known

from flipping import LOG_DIRS, Flip, Flipped, all_flips, class_of, small_log_dir  # isort: skip

SEEN = "seen"
AT_ONCE = 500

_FLIPPED: dict[str, Flipped] = {}


def flipped_of(scene: str) -> Flipped:
    """A log dir of this process."""
    if scene not in _FLIPPED:
        _FLIPPED[scene] = Flipped(small_log_dir(scene, pathlib.Path(tempfile.mkdtemp(prefix="flips-"))))
    return _FLIPPED[scene]


def classes_of(flips: list[Flip]) -> list[tuple[Flip, str | None]]:
    """What each flip is; None: nobody sees it, and no class tells why."""
    found = []
    for flip in flips:
        flipped = flipped_of(flip.scene)
        is_seen = flipped.is_seen(flip)
        found.append((flip, SEEN if is_seen else class_of(flipped.log_dir, flip, flipped.data(flip))))
    return found


def some_at_once() -> Iterator[list[Flip]]:
    """All flips of all scenes."""
    for scene in LOG_DIRS:
        flips = list(all_flips(scene, flipped_of(scene).log_dir))
        yield from (flips[at : at + AT_ONCE] for at in range(0, len(flips), AT_ONCE))


def main() -> int:
    """The tally, and each flip that is of no class."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    tally: Counter[str] = Counter()
    unknown = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for found in pool.map(classes_of, some_at_once()):
            tally.update(what or "of no class" for _, what in found)
            unknown += [flip for flip, what in found if what is None]
    for what, count in tally.most_common():
        print(f"{count:8,}  {what}")
    for flip in unknown:
        print(f"not seen: {flip}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
