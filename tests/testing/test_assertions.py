"""What klogtool.testing asserts of a log, and what it says where that is not so."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import unittest
from collections.abc import Callable
from typing import Any

import pytest
from raw_batches import build_batch
from verifying import NOW_MS, data, marker, write_log

from klogtool.errors import KlogError
from klogtool.format.batch import Header, Record
from klogtool.testing import Verdict, assert_log_clean, assert_records, broker_would, wounds

Path = pathlib.Path
Copy = Callable[[str], Path]
AT = 1_700_000_000_000


def told(assertion: Callable[..., None], *args: Any, **given: Any) -> str:
    with pytest.raises(AssertionError) as error:
        assertion(*args, **given)
    return str(error.value)


def orders(tmp_path: Path, *values: bytes | None, **options: Any) -> Path:
    """A partition with a batch for each value, keys a, b, ...; headers if there are."""
    headers = options.pop("headers", ())
    batches = [
        build_batch([Record(n, AT + n, bytes([97 + n % 26]), value, headers)], partition_leader_epoch=0, **options)
        for n, value in enumerate(values)
    ]
    return write_log(tmp_path / "orders-0", s0=batches)


# --- assert_log_clean


def test_a_sound_log_dir_is_clean(copy_of: Copy) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    assert_log_clean(log_dir, now_ms=NOW_MS)
    assert_log_clean(str(log_dir / "t-0"), now_ms="2030-01-01")
    wounds.preallocate_index(log_dir / "t-0")
    assert_log_clean(log_dir, now_ms=NOW_MS)
    assert "index-untrimmed" in told(assert_log_clean, log_dir, now_ms=NOW_MS, fail_on="info")


def test_damage_is_told_as_verify_tells_it(copy_of: Copy) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    wounds.flip_bit(log_dir / "t-0", segment=0, batch=2)
    text = told(assert_log_clean, log_dir, now_ms=NOW_MS)
    assert text.startswith(f"1 finding in {log_dir}\n\nerror    t-0/{0:020d}.log\n         batch-crc   bytes ")
    assert "klogtool salvage" in text
    assert max(map(len, text.splitlines()[1:5])) <= 76
    assert_log_clean(log_dir, now_ms=NOW_MS, ignore={"batch-crc"})


def test_the_lowest_severity_that_counts(copy_of: Copy) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    wounds.stale_index(log_dir / "t-0", kind="timeindex", segment=0)
    assert "timeindex-max" in told(assert_log_clean, log_dir, now_ms=NOW_MS)
    assert_log_clean(log_dir, now_ms=NOW_MS, fail_on="error")


def test_of_many_findings_some_are_shown(copy_of: Copy) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    for number in range(25):
        wounds.add_file(log_dir, name=f"lost{number}found/x")
    text = told(assert_log_clean, log_dir, now_ms=NOW_MS)
    assert text.startswith("25 findings in ")
    assert text.count("foreign-folder") == 20
    assert text.endswith("... and 5 more findings")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"ignore": ["batch-crk"]}, "there is no finding 'batch-crk'"),
        ({"fail_on": "never"}, "fail_on is error, warning or info"),
        ({"kafka": "0.1"}, "the question.kafka"),
        ({"kafak": "4.3.1"}, "the question.kafak is unknown"),
    ],
)
def test_a_wrong_argument_is_an_error_and_no_failure(given: dict[str, Any], why: str, copy_of: Copy) -> None:
    with pytest.raises(KlogError, match=why):
        assert_log_clean(copy_of("leader-epochs/logdir"), **given)


def test_a_time_is_given_as_everywhere(copy_of: Copy) -> None:
    at = "2023-11-14T22:13:20Z"
    assert_log_clean(copy_of("leader-epochs/logdir"), now_ms="2026-11-21T18:10:00Z", loaded_at_ms=at)


def test_a_path_that_is_no_log_is_an_error(tmp_path: Path) -> None:
    for assertion in (assert_log_clean, broker_would, lambda path: assert_records(path, [])):
        with pytest.raises(KlogError):
            assertion(tmp_path / "nothing")
    with pytest.raises(KlogError, match="no path is given"):
        assert_log_clean()
    with pytest.raises(KlogError, match="no log dir is given"):
        broker_would()


# --- assert_records


def test_records_are_as_expected(tmp_path: Path) -> None:
    partition = orders(tmp_path, b"one", b"two", None, headers=(Header(b"h", b"1"),))
    assert_records(partition, [("a", "one"), (b"b", b"two"), ("c", None)])
    assert_records(partition / f"{0:020d}.log", [{"offset": 0}, {"value": "two"}, {"headers": {"h": "1"}}])
    assert_records(partition, [{"timestamp": AT + n, "headers": [("h", b"1")]} for n in range(3)])
    assert_records(partition, [Record(n, AT + n, b"abc"[n : n + 1], value, (Header(b"h", b"1"),)) for n, value in
                               enumerate((b"one", b"two", None))])  # fmt: skip


def test_a_diff_that_a_person_can_read(tmp_path: Path) -> None:
    partition = orders(tmp_path, b"one", b"two", b"three", b"four", b"five")
    wanted = [("a", "one"), ("b", "TWO"), ("c", "three"), ("x", "new"), ("d", "four")]
    assert told(assert_records, partition, wanted).splitlines() == [
        "orders-0 has other records than expected: 5 expected, 5 records found.",
        "  - expected, not found; + found, not expected",
        f"    offset 0  time {AT}  key 'a'  value 'one'",
        "  - key 'b'  value 'TWO'",
        f"  + offset 1  time {AT + 1}  key 'b'  value 'two'",
        f"    offset 2  time {AT + 2}  key 'c'  value 'three'",
        "  - key 'x'  value 'new'",
        f"    offset 3  time {AT + 3}  key 'd'  value 'four'",
        f"  + offset 4  time {AT + 4}  key 'e'  value 'five'",
    ]


def test_offsets_and_times_are_compared_where_they_are_named(tmp_path: Path) -> None:
    partition = orders(tmp_path, b"one", b"two")
    text = told(assert_records, partition, [{"offset": 0, "key": "a"}, {"offset": 5, "key": "b"}])
    assert "  - offset 5  key 'b'\n" in text
    assert f"  + offset 1  time {AT + 1}  key 'b'  value 'two'" in text


def test_long_and_binary_values_are_shown_around_the_difference(tmp_path: Path) -> None:
    partition = orders(tmp_path, b"x" * 5000 + b"y" + b"x" * 100, b"\xff\x00", b"\x1b[31m", b"\n")
    text = told(assert_records, partition, [("a", b"x" * 5101), ("b", b"\xfe"), ("c", "red"), ("d", "line")])
    assert f"  - key 'a'  value ...'{'x' * 40}'..." in text
    assert f"value ...'{'x' * 10}y{'x' * 29}'..." in text
    assert "      value: the first 5,000 bytes are equal" in text
    assert "value 0xff00" in text
    assert r"value '\x1b[31m'" in text
    assert r"value '\n'" in text


def test_many_differences_are_counted(tmp_path: Path) -> None:
    partition = orders(tmp_path, *[b"%d" % n for n in range(1200)])
    text = told(assert_records, partition, [("k", "v")] * 600)
    assert "600 expected, 1,200 records found." in text
    assert text.endswith("... and 1,760 more lines")
    text = told(assert_records, partition, [])
    assert "0 expected, at least 1,000 records found." in text
    assert len(text.splitlines()) < 50


def test_a_log_without_records(tmp_path: Path) -> None:
    partition = write_log(tmp_path / "orders-0", s0=[])
    assert_records(partition, [])
    assert "1 expected, 0 records found" in told(assert_records, partition, [("a", "b")])


def test_control_records_do_not_count_and_read_committed_leaves_out_what_was_aborted(tmp_path: Path) -> None:
    log = [data(0), data(1, 7), marker(2, 7), data(3, 7, 1), marker(4, 7, "commit"), data(5), data(6, 8)]
    partition = write_log(tmp_path / "t-0", s0=log)
    assert_records(partition, [{"offset": offset} for offset in (0, 1, 3, 5, 6)])
    assert_records(partition, [{"offset": offset} for offset in (0, 3, 5)], isolation="read_committed", now_ms=AT)


def test_damage_fails_unless_the_records_before_it_are_asked_for(tmp_path: Path) -> None:
    partition = orders(tmp_path, b"one", b"two", b"three")
    wounds.flip_bit(partition, batch=1)
    one = [("a", "one")]
    assert_records(partition, one, until_damage=True)
    text = told(assert_records, partition, one)
    assert text.startswith("orders-0 has these records, and then damage.\nreading ended: ")
    assert text.endswith("at byte 72: the checksum does not match")
    wounds.tear_at(partition, batch=1, at=5)
    assert text.partition(" at ")[0] in (text := told(assert_records, partition, one))
    assert text.endswith("at byte 72: 5 bytes are no whole batch")
    assert "1 record found" in told(assert_records, partition, [*one, ("b", "two")], until_damage=True)


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ("a", "record 0 is neither a mapping, nor a pair"),
        ({"vlaue": "x"}, "record 0 has the field 'vlaue': known are offset, "),
        ({"value": 7}, "value of record 0 is neither bytes nor text nor None: 7"),
        ({"offset": "7"}, "offset of record 0 is no whole number: '7'"),
        ({"headers": [1]}, "headers of record 0 are no pairs"),
    ],
)
def test_a_wrong_expectation_is_an_error(expected: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(KlogError) as error:
        assert_records(orders(tmp_path, b"x"), [expected])
    assert why in str(error.value)


# --- broker_would


def test_the_verdict_on_a_sound_log_dir(copy_of: Copy) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    verdict = broker_would(log_dir, now_ms=NOW_MS)
    assert verdict.starts
    assert verdict.loses_nothing
    assert verdict.is_well
    assert (verdict.lost_records, verdict.does, verdict.options, verdict.refusals) == (0, set(), (), [])
    assert verdict.partition("t-0").log_end_offset == 78
    with pytest.raises(KeyError):
        verdict.partition("t-1")


def test_what_a_start_loses(copy_of: Copy) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    wounds.flip_bit(log_dir / "t-0", batch=-2)
    wounds.unclean_stop(log_dir)
    wounds.forge_checkpoint(log_dir, checkpoint="recovery-point-offset-checkpoint", partition="t-0", offset=0)
    verdict = broker_would(log_dir / "t-0", now_ms=NOW_MS)
    assert verdict.starts
    assert not verdict.loses_nothing
    assert verdict.does == {"truncated", "missing"}
    assert verdict.lost_in("t-0") == verdict.lost_records == 5
    assert verdict.partition("t-0").log_end_offset == 64
    assert {option.lost_records for option in verdict.options} >= {5}
    assert str(verdict).startswith("A broker 4.3.1 would start on this log dir and LOSE DATA in 1 of 1 partition.")
    assert repr(verdict) == (
        "<A broker 4.3.1 would start on this log dir and LOSE DATA in 1 of 1 partition. t-0 truncated, t-0 missing>"
    )


def test_why_a_broker_refuses(copy_of: Copy) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    wounds.add_file(log_dir, name="lost+found/x")
    verdict = broker_would(log_dir, now_ms=NOW_MS)
    assert not verdict.starts
    assert verdict.does >= {"refuses"}
    assert verdict.refusals[0].startswith("KafkaException: Found directory ")


def test_another_release_and_another_stop_may_be_asked_for(copy_of: Copy) -> None:
    log_dir = copy_of("metadata/logdir")
    assert broker_would(log_dir, now_ms=NOW_MS, kafka="4.3.1").starts
    assert not broker_would(log_dir, now_ms=NOW_MS, kafka="3.9.2").starts
    log_dir = copy_of("leader-epochs/logdir")
    wounds.tear_at(log_dir / "t-0")
    assert broker_would(log_dir, now_ms=NOW_MS, last_stop="clean").does == {"ends-early", "missing"}
    assert isinstance(broker_would(log_dir, now_ms=NOW_MS, last_stop="unclean"), Verdict)


# --- without pytest


class AsInUnittest(unittest.TestCase):
    def test_an_assertion_fails_as_unittest_expects(self) -> None:
        with pytest.raises(self.failureException):
            assert_records(pathlib.Path(__file__).parents[2] / "fixtures/leader-epochs/logdir/t-0", [])


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    program = (
        "import sys, klogtool.testing as t\n"
        "heavy = {'pytest', 'construct', 'rich', 'click', 'msgspec'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.modules['pytest'] = None\n"
        "t.assert_log_clean, t.assert_records, t.broker_would\n"
        "from klogtool.testing.wounds import flip_bit\n"
        "assert 'click' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
