"""Single bits of a small log dir, flipped: verify sees it, or it is of a class that docs/verify.md tells of.

A few hundred by chance (KLOGTOOL_FLIPS: how many; pytest's --seed: the same again); `tools/fuzz/flips.py` tries all.
Kafka itself is asked in tests/kafka/test_flips_against_kafka.py whether those of a harmless class are so.
"""

from __future__ import annotations

import os
import pathlib

import pytest
from flipping import HARMLESS, IDENTITY, LOG_DIRS, UNSEEN, Flip, Flipped, class_of, files_of, small_log_dir, some_flips
from running import ROOT
from sampling import chance

COUNT = int(os.environ.get("KLOGTOOL_FLIPS", "300"))


@pytest.mark.slow
@pytest.mark.parametrize("scene", LOG_DIRS)
def test_a_flip_is_seen_or_of_a_known_class(scene: str, tmp_path: pathlib.Path) -> None:
    log_dir = small_log_dir(scene, tmp_path)
    flipped = Flipped(log_dir)
    flips = some_flips(scene, log_dir, COUNT, chance(scene))
    assert {flip.name for flip in flips} == {name for name in files_of(log_dir) if (log_dir / name).stat().st_size}
    silent = [flip for flip in flips if not flipped.is_seen(flip)]
    unknown = [str(flip) for flip in silent if class_of(log_dir, flip, flipped.data(flip)) is None]
    assert unknown == []
    assert len(silent) < len(flips) / 4


def test_the_page_of_verify_tells_of_each_class_and_of_no_other() -> None:
    page = (ROOT / "docs/verify.md").read_text(encoding="utf-8")
    _, _, section = page.partition("\n## What it cannot see\n")
    rows = [line.split("|")[1].strip() for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert rows == ["a flip in", "---", *HARMLESS, *UNSEEN]


def test_a_key_of_meta_properties_that_is_no_longer_known_counts_as_missing(tmp_path: pathlib.Path) -> None:
    """As in Kafka, which takes any other key without a word. Without the optional one nothing is wrong."""
    log_dir = small_log_dir("leader-epochs", tmp_path)
    flipped, name = Flipped(log_dir), "meta.properties"
    for key, is_seen in ((b"directory.id", False), (b"node.id", True), (b"cluster.id", True), (b"version", True)):
        flip = Flip("leader-epochs", name, flipped.data(Flip("", name, 0, 0)).index(key, 1) + 1, 1)
        assert flipped.is_seen(flip) == is_seen, key
        assert is_seen or class_of(log_dir, flip, flipped.data(flip)) == IDENTITY
