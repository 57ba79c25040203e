"""Which partition has a name: of a coordinator, as Java's String.hashCode says."""

from __future__ import annotations

import pytest

from klogtool.format.partitioner import coordinator_partition


@pytest.mark.parametrize(
    ("name", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("billing", -109_829_509),
        ("polygenelubricants", 0),  # its hash is Integer.MIN_VALUE, of which Utils.abs makes 0
        ("\N{GRINNING FACE}", 1_772_899),  # two units of UTF-16
    ],
)
def test_a_group_is_coordinated_where_java_says(name: str, hash_code: int) -> None:
    for partitions in (1, 2, 7, 50, 1 << 31):
        assert coordinator_partition(name, partitions) == abs(hash_code) % partitions
