"""The order of keys in Java's and Scala's HashMap, as seen with a JVM (Java 17, Scala 2.13.15) for the numbers here."""

import pytest

from klogtool.format.hash_order import LongHashKeys, ScalaLongHashKeys


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


SCALA = [
    ([3, 51, 19], [3, 19, 51]),
    ([16, *range(10)], [0, 16, *range(1, 10)]),
    ([16, *range(11)], [*range(11), 16]),  # the twelfth key makes the table grow
    ([1 << 31, 0, 1 << 47, 1 << 32], [1 << 31, 0, 1 << 47, 1 << 32]),  # signed hash codes; 47 and 31 make the same one
    ([(1 << 53) + 1, 1000016, 1000000, 1000032, 4000000000], [(1 << 53) + 1, 4000000000, 1000000, 1000016, 1000032]),
]


@pytest.mark.parametrize(("keys", "order"), SCALA)
def test_a_bucket_of_scala_is_in_the_order_of_hash_codes(keys: list[int], order: list[int]) -> None:
    hashed = ScalaLongHashKeys()
    for key in (*keys, *keys):
        hashed.compute_if_absent(key)
    assert hashed.in_order == order
