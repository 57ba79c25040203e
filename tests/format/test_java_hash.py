"""The order of keys in Java's HashMap, as seen with a JVM (Java 17) for the numbers here."""

from klogtool.format.java_hash import LongHashKeys


def computed(*keys: int) -> list[int]:
    hashed = LongHashKeys()
    for key in keys:
        hashed.compute_if_absent(key)
    return hashed.in_order


def test_put_appends_to_a_bucket_and_compute_if_absent_puts_in_front() -> None:
    assert LongHashKeys([3, 51, 19]).in_order == [3, 51, 19]  # all in bucket 3 of 16
    assert computed(3, 51, 19) == [19, 51, 3]


def test_a_full_table_grows_at_once_or_at_the_next_call() -> None:
    assert LongHashKeys([16, *range(12)]).in_order == [*range(12), 16]  # 13 keys: 32 buckets
    assert computed(16, *range(12)) == [0, 16, *range(1, 12)]  # still 16 buckets
    assert computed(16, *range(12), 16) == [*range(12), 16]  # grown by a call for a key that is there


def test_a_crowded_bucket_makes_a_small_table_grow() -> None:
    crowd = [16 * n for n in range(8)]
    assert LongHashKeys(crowd).in_order == crowd
    assert computed(*crowd[:7]) == crowd[6::-1]
    assert computed(*crowd) == [96, 64, 32, 0, 112, 80, 48, 16]
    assert LongHashKeys([*crowd, 128]).in_order == [0, 32, 64, 96, 128, 16, 48, 80, 112]
    assert computed(*crowd, 128) == [128, 96, 64, 32, 0, 112, 80, 48, 16]


def test_a_cleared_table_stays_large() -> None:
    hashed = LongHashKeys(range(13))
    hashed.clear()
    hashed.put(16)
    hashed.put(0)
    assert hashed.in_order == [0, 16]
    assert LongHashKeys([16, 0]).in_order == [16, 0]
