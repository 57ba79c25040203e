"""Retention rule by rule: by log start, size and time, what guards a segment, what is left where all go."""

import os
import pathlib

import pytest
from damage import append_bytes
from deciding import decided
from loading import EPOCHS, NOW_MS, files_of, make, name_of, names_of, segment
from retaining import after, arguments, gone, kept, retained

from klogtool.format.message import build_message
from klogtool.plans.plan import Rename, Write
from klogtool.render.retain import retain_text
from klogtool.render.words import words

DAY_MS = 86_400_000
SIZE = len(segment(0))


def newest_ms(last_offset: int) -> int:
    """The timestamp of a record of `segment`."""
    return NOW_MS + 1000 * last_offset


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    """Segments 0, 4 and 8 of four records each."""
    return make(tmp_path / "t-0", {base: segment(base) for base in (0, 4, 8)})


@pytest.mark.parametrize(
    ("now_ms", "bases"),
    [
        (newest_ms(3) + DAY_MS, []),
        (newest_ms(3) + DAY_MS + 1, [0]),
        (newest_ms(7) + DAY_MS, [0]),
        (newest_ms(7) + DAY_MS + 1, [0, 4]),
        (newest_ms(11) + DAY_MS + 1, [0, 4, 8]),
        (0, []),
    ],
)
def test_by_time_a_segment_goes_when_its_newest_record_is_older_than_the_limit(
    log: pathlib.Path, now_ms: int, bases: list[int]
) -> None:
    plan = retained(log, {"retention.ms": str(DAY_MS)}, now_ms)
    assert gone(plan) == [(base, "time") for base in bases]


@pytest.mark.parametrize(("limit", "bases"), [("0", [0]), ("-1", [])])
def test_a_limit_of_0_is_a_limit(log: pathlib.Path, limit: str, bases: list[int]) -> None:
    plan = retained(log, {"retention.ms": limit}, newest_ms(3) + 1)
    assert gone(plan) == [(base, "time") for base in bases]


@pytest.mark.parametrize(
    ("limit", "bases"),
    [
        (3 * SIZE + 1, []),
        (3 * SIZE, []),
        (2 * SIZE + 1, []),
        (2 * SIZE, [0]),
        (SIZE, [0, 4]),
        (1, [0, 4]),
        (0, [0, 4, 8]),
        (-1, []),
    ],
)
def test_by_size_the_log_never_falls_below_the_limit(log: pathlib.Path, limit: int, bases: list[int]) -> None:
    plan = retained(log, {"retention.bytes": str(limit)})
    assert gone(plan) == [(base, "size") for base in bases]


@pytest.mark.parametrize(("limit", "bases"), [(SIZE, [0]), (SIZE + 1, [])])
def test_an_empty_segment_goes_where_the_log_has_the_very_size(
    tmp_path: pathlib.Path, limit: int, bases: list[int]
) -> None:
    """UnifiedLog.deleteRetentionSizeBreachedSegments goes on at a difference of 0."""
    log = make(tmp_path / "t-0", {0: b"", 4: segment(4)})
    plan = retained(log, {"retention.bytes": str(limit)})
    assert gone(plan) == [(base, "size") for base in bases]


@pytest.mark.parametrize(("before", "bases"), [({}, []), ({0: segment(0)}, [0])])
def test_an_empty_active_segment_stays_however_old_its_file_is(
    tmp_path: pathlib.Path, before: dict[int, bytes], bases: list[int]
) -> None:
    log = make(tmp_path / "t-0", {**before, 4: b""})
    os.utime(log / name_of(4, "log"), (0, 0))
    plan = retained(log, {"retention.ms": str(DAY_MS)}, newest_ms(3) + DAY_MS + 1)
    assert gone(plan) == [(base, "time") for base in bases]


@pytest.mark.parametrize(("log_start", "bases"), [(3, []), (4, [0]), (7, [0]), (8, [0, 4]), (12, [0, 4])])
def test_below_the_log_start_all_go_but_the_active_segment(log: pathlib.Path, log_start: int, bases: list[int]) -> None:
    plan = retained(log, {}, log_start_offset=log_start)
    assert gone(plan) == [(base, "log_start") for base in bases]


def test_each_segment_has_the_first_reason_that_holds(log: pathlib.Path) -> None:
    config = {"retention.ms": "1", "retention.bytes": str(SIZE)}
    plan = retained(log, config, NOW_MS + DAY_MS, log_start_offset=4)
    assert gone(plan) == [(0, "log_start"), (4, "size"), (8, "time")]


def test_the_size_of_what_the_log_start_took_no_longer_counts(log: pathlib.Path) -> None:
    assert gone(retained(log, {"retention.bytes": str(2 * SIZE)}, log_start_offset=4)) == [(0, "log_start")]


@pytest.mark.parametrize(("policy", "bases"), [("compact", []), ("", []), ("compact,delete", [0, 4, 8])])
def test_without_the_policy_delete_only_what_is_below_the_log_start_goes(
    log: pathlib.Path, policy: str, bases: list[int]
) -> None:
    config = {"retention.ms": "1", "cleanup.policy": policy}
    assert gone(retained(log, config, NOW_MS + DAY_MS)) == [(base, "time") for base in bases]
    assert gone(retained(log, config, log_start_offset=5))[:1] == [(0, "log_start")]


@pytest.mark.parametrize(("high_watermark", "bases"), [(0, []), (3, []), (4, [0]), (11, [0, 4]), (12, [0, 4, 8])])
def test_nothing_goes_that_is_not_below_the_high_watermark(
    log: pathlib.Path, high_watermark: int, bases: list[int]
) -> None:
    plan = retained(log, {"retention.ms": "1"}, NOW_MS + DAY_MS, high_watermark=high_watermark)
    assert gone(plan) == [(base, "time") for base in bases]
    if len(bases) < 3:
        assert {reason for _, reason in kept(plan)} == {"high_watermark"}


def test_the_walk_ends_at_the_first_that_stays(log: pathlib.Path) -> None:
    (log / name_of(4, "timeindex")).write_bytes((NOW_MS + 9 * DAY_MS).to_bytes(8, "big") + (3).to_bytes(4, "big"))
    plan = retained(log, {"retention.ms": str(DAY_MS)}, NOW_MS + 3 * DAY_MS)
    assert gone(plan) == [(0, "time")]
    assert kept(plan) == [(4, "future"), (8, "behind")]


def test_of_what_goes_every_file_is_renamed_and_the_log_begins_later(log: pathlib.Path) -> None:
    plan = retained(log, {"retention.bytes": str(SIZE)})
    files = after(plan)
    assert names_of(files, "log") == [8]
    assert names_of(files, "log.deleted") == names_of(files, "index.deleted") == [0, 4]
    assert names_of(files, "timeindex.deleted") == [0, 4]
    assert names_of(files, "snapshot.deleted") == [4]
    assert files[EPOCHS] == b"0\n1\n1 8\n"
    assert plan.answer["state"] == {"log_start_offset": 8, "log_end_offset": 12, "log_start_checkpoint": None}


def test_a_log_start_inside_the_first_segment_stays(log: pathlib.Path) -> None:
    plan = retained(log, {"retention.bytes": str(SIZE)}, log_start_offset=10)
    assert plan.answer["state"] == {"log_start_offset": 10, "log_end_offset": 12, "log_start_checkpoint": 10}


def test_where_all_go_an_empty_segment_comes_to_be_at_the_log_end(log: pathlib.Path) -> None:
    plan = retained(log, {"retention.ms": "1"}, NOW_MS + DAY_MS)
    files = after(plan)
    assert names_of(files, "log") == [12]
    assert files[name_of(12, "log")] == b""
    assert names_of(files, "snapshot") == [12]
    assert files[EPOCHS] == b"0\n1\n1 12\n"
    assert plan.answer["state"] == {"log_start_offset": 12, "log_end_offset": 12, "log_start_checkpoint": None}
    assert kept(plan) == [(12, "active_and_empty")]


def test_the_empty_segment_is_there_before_the_last_one_goes_and_the_oldest_goes_first(log: pathlib.Path) -> None:
    steps = retained(log, {"retention.ms": "1"}, NOW_MS + DAY_MS).steps
    renamed = [step.path for step in steps if isinstance(step, Rename) and step.path.endswith(".log")]
    assert renamed == [name_of(base, "log") for base in (0, 4, 8)]
    begun = next(n for n, step in enumerate(steps) if isinstance(step, Write) and step.path == name_of(12, "log"))
    gone = [n for n, step in enumerate(steps) if isinstance(step, Rename) and step.path.endswith(".log")]
    assert gone[1] < begun < gone[2], "on a full disk there is room for it then"


def test_a_second_pass_deletes_nothing(log: pathlib.Path) -> None:
    config = {"retention.ms": "1"}
    files = after(retained(log, config, NOW_MS + DAY_MS))
    for path in log.iterdir():
        path.unlink()
    for name, content in files.items():
        (log / name).write_bytes(content)
    again = retained(log, config, NOW_MS + 2 * DAY_MS)
    assert gone(again) == []
    assert again.answer["state"]["log_end_offset"] == 12


def test_purge_leaves_nothing_to_be_deleted_later(log: pathlib.Path) -> None:
    asked = arguments(NOW_MS, {"retention.bytes": str(SIZE)}, {}) | {"purge": True}
    (plan,) = decided("retain", str(log), asked)
    assert not [name for name in after(plan) if name.endswith(".deleted")]
    assert plan.bytes_freed > 2 * SIZE


def test_without_timestamps_the_time_of_the_file_counts(tmp_path: pathlib.Path) -> None:
    log = make(tmp_path / "t-0", {base: build_message(base, None, b"v", magic=0) for base in (0, 1)})
    os.utime(log / name_of(0, "log"), ns=(5_000_000, 5_000_000))
    os.utime(log / name_of(1, "log"), ns=(9_000_000, 9_000_000))
    plan = retained(log, {"retention.ms": "10"}, now_ms=16)
    assert gone(plan) == [(0, "time")]
    (row,) = plan.answer["kept"]
    assert (row["segment"], row["reason"], row["due_ms"]) == (1, "young", 20)
    assert row["held_by"] == {"segment": 1, "offset": None, "producer_id": None, "timestamp": 9, "file_time": True}


@pytest.mark.parametrize(("ms_later", "bases"), [(DAY_MS, []), (DAY_MS + 1, [0])])
def test_the_time_of_a_file_counts_in_whole_milliseconds(
    tmp_path: pathlib.Path, ms_later: int, bases: list[int]
) -> None:
    """Java's File.lastModified. What is left of a millisecond makes no file younger."""
    log = make(tmp_path / "t-0", {0: build_message(0, None, b"v", magic=0)})
    mtime_ns = NOW_MS * 1_000_000 + 999_999
    os.utime(log / name_of(0, "log"), ns=(mtime_ns, mtime_ns))
    plan = retained(log, {"retention.ms": str(DAY_MS)}, now_ms=NOW_MS + ms_later)
    assert gone(plan) == [(base, "time") for base in bases]


@pytest.mark.parametrize(("now_ms", "bases"), [(20, []), (21, [0])])
def test_without_timestamps_a_log_that_loading_cuts_is_as_old_as_the_loading(
    tmp_path: pathlib.Path, now_ms: int, bases: list[int]
) -> None:
    """Java asks the file, which the recovery has just written."""
    whole = build_message(0, None, b"v", magic=0)
    log = make(tmp_path / "t-0", {0: whole})
    append_bytes(log / name_of(0, "log"), whole[:-1])
    os.utime(log / name_of(0, "log"), ns=(5_000_000, 5_000_000))
    plan = retained(log, {"retention.ms": "10"}, now_ms, loaded_at_ms=10, last_stop="unclean", recovery_point=0)
    assert gone(plan) == [(base, "time") for base in bases]


def test_an_index_that_nobody_asked_for_keeps_every_byte(log: pathlib.Path) -> None:
    """Telling why segments stay opens nothing."""
    strange = log / name_of(0, "index")
    strange.write_bytes(strange.read_bytes() + b"abc")
    before = files_of(log)
    assert after(retained(log, {})) == before


@pytest.mark.parametrize(("starts", "wanted"), [((1, 2, 3), b"0\n2\n2 4\n3 8\n"), ((1, 1, 3), b"0\n2\n1 4\n3 8\n")])
def test_the_epoch_in_which_the_log_begins_begins_there(
    tmp_path: pathlib.Path, starts: tuple[int, ...], wanted: bytes
) -> None:
    logs = {base: segment(base, epoch=epoch) for base, epoch in zip((0, 4, 8), starts, strict=True)}
    log = make(tmp_path / "t-0", logs)
    assert after(retained(log, {"retention.bytes": str(2 * SIZE)}))[EPOCHS] == wanted


def test_a_log_that_looks_tiered_is_asked_about(tmp_path: pathlib.Path) -> None:
    log = make(tmp_path / "t-0", {base: segment(base) for base in (8, 12)})
    plan = retained(log, {"retention.ms": "1"}, NOW_MS + DAY_MS, log_start_offset=3)
    assert gone(plan) == [(8, "time"), (12, "time")]
    assert words(plan.notes[-1]).endswith("if the topic is tiered, set --config remote.storage.enable=true")
    assert f"  {words(plan.notes[-1])}" in retain_text(plan, is_whole=False).splitlines()
    tiered = {"retention.ms": "1", "remote.storage.enable": "true"}
    assert gone(retained(log, tiered, NOW_MS + DAY_MS, log_start_offset=3)) == []
    assert gone(retained(log, tiered, NOW_MS + DAY_MS, log_start_offset=12)) == [(8, "log_start")]
