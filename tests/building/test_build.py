"""`klogtool build`: the same bytes every time, and what a broker would have left."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from running import ROOT, Done, run_here
from verifying import found

import klogtool
from klogtool.building import Batch, Generated, PartitionSpec, RecordSpec, Spec, StepSpec, read_spec
from klogtool.building.log_dir import build_log_dir
from klogtool.errors import KlogError

ORDERS = ROOT / "docs/orders.yaml"
Files = dict[str, bytes]


def files_of(spec: Spec | str) -> Files:
    """The bytes of a spec, by path."""
    made = build_log_dir(read_spec(spec.encode()) if isinstance(spec, str) else spec, "/logs").draft
    return {name: made.read(name) for name in made.names()}


def bytes_of(folder: pathlib.Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def log(*steps: str, config: str = "{}") -> str:
    lines = "".join(f"\n      - {step}" for step in steps)
    return f"partitions:\n  - topic: t\n    config: {config}\n    log:{lines}\n"


def wrong(text: str) -> str:
    with pytest.raises(KlogError) as error:
        files_of(text)
    return error.value.reason


def test_a_log_dir_that_was_built_has_no_finding_and_nothing_to_recover(tmp_path: pathlib.Path) -> None:
    done = run_here(["build", str(ORDERS), "--output", "logs"], tmp_path)
    assert (done.status, done.err) == (0, "")
    assert not found(tmp_path / "logs")
    now = "2024-05-01T12:00:06Z"
    recovered = run_here(["recover", "logs", "--last-stop", "unclean", "--recovery-point", "0", "--now", now], tmp_path)
    assert b"0 changes of files" in recovered.out or b"no change" in recovered.out, recovered.out.decode()


def test_two_processes_make_the_same_bytes(tmp_path: pathlib.Path) -> None:
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": f"UTC+{seed}"}
        command = [sys.executable, "-m", "klogtool", "build", str(ORDERS), "--output", str(tmp_path / seed)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    first, second = bytes_of(tmp_path / "1"), bytes_of(tmp_path / "2")
    assert first == second
    assert len(first) == 21


def test_the_page_shows_the_spec_that_it_builds() -> None:
    assert f"```yaml\n{ORDERS.read_text()}```" in (ROOT / "docs/build.md").read_text()


def test_python_builds_the_same_as_the_command_line(tmp_path: pathlib.Path) -> None:
    answer = klogtool.build(read_spec(ORDERS.read_bytes()), tmp_path / "a")
    run_here(["build", str(ORDERS), "--output", "b"], tmp_path)
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")
    assert answer.partitions[0].log_end_offset == 1005


def test_generated_records_roll_and_are_indexed_as_if_each_batch_were_a_write_of_its_own() -> None:
    """Whole chunks are appended at once where that is the same; releases without index entries per batch never do."""
    generate = "generate: {records: 3000, seed: 3, keys: 9, value_bytes: 0..300, producer: 5}"
    config = "{segment.bytes: 60000, segment.ms: 8000, index.interval.bytes: 1000}"
    many = files_of(log(generate, config=config))
    assert sum(name.endswith(".log") for name in many) > 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("klogtool.building.partition.LogInMaking._fits", lambda *_: False)
        assert files_of(log(generate, config=config)) == many


def test_records_have_what_the_spec_says() -> None:
    text = log(
        'batch: {records: [{key: a, value: "1", headers: [[h, null], [i, {hex: "ff00"}]], timestamp: 2024-05-01}, {}]}',
        "batch: {offset: 10, codec: gzip, records: [{value: {base64: AP8=}, offset: 12, timestamp: null}]}",
        "gap: 7",
        "batch: {leader_epoch: 4, records: [{}]}",
    )
    made = build_log_dir(read_spec(text.encode()), "/logs")
    data = made.draft.read("t-0/00000000000000000000.log")
    from klogtool.format.batch import parse_batch

    first = parse_batch(data)
    second = parse_batch(data, first.size)
    third = parse_batch(data, first.size + second.size)
    records = [*first.records(), *second.records(), *third.records()]
    assert [(r.offset, r.key, r.value, r.timestamp) for r in records] == [
        (0, b"a", b"1", 1_714_521_600_000),
        (1, None, None, 1_704_067_200_000),
        (12, None, b"\0\xff", -1),
        (20, None, None, 1_704_067_200_005),
    ]
    assert [(h.key, h.value) for h in records[0].headers] == [(b"h", None), (b"i", b"\xff\0")]
    assert (second.base_offset, second.codec, third.partition_leader_epoch) == (10, "gzip", 4)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "partitions: [{topic: t, log: [{records: []}]}]",
            "partitions[0].log[0]: records does not belong here; a step is one of batch, generate, commit",
        ),
        ("partitions: [{topic: t, seed: 3}]", "partitions[0]: seed does not belong here"),
        ("partitions: [{topic: t, lag: []}]", "partitions[0]: there is no lag (did you mean log?)"),
        (
            "partitions: [{topic: t, log: [{batch: {records: [{key: 1}]}}]}]",
            "partitions[0].log[0].batch.records[0].key: expected",
        ),
        (log("batch: {offset: 5}", "batch: {offset: 3}"), "partitions[0].log[1]: Unexpected offset in append"),
        (log("{batch: {}, roll: {}}"), "partitions[0].log[0]: a step is one of"),
        (log("batch: {epoch: 3}"), "partitions[0].log[0]: epoch goes with producer"),
        (log("batch: {codec: zstd, magic: 1, records: [{}]}"), "partitions[0].log[0]: zstd does not exist for magic 1"),
        (log("generate: {records: 2000000000}"), "this spec makes up to"),
        (log("generate: {records: 1, value_bytes: 9..1}"), "value_bytes is a size or a range"),
        (log("batch: {records: [{timestamp: noon}]}"), "partitions[0].log[0]: 'noon' is neither"),
        (log("roll", config="{segment.byts: 3}"), "partitions[0]: not a log config: segment.byts"),
        (log("roll", config="{segment.bytes: x}"), "partitions[0]: not a value of segment.bytes"),
        ("partitions: [{topic: a}, {topic: a}]", "partitions[1]: a-0 is there twice"),
        ("partitions: [{topic: ../a}]", "partitions[0]: not the name of a partition dir"),
        ("partitions: [{topic: t, log: [roll], segments: [{base: 0}]}]", "partitions[0]: a partition has either a log"),
        (f"partitions: [{{topic: {'a' * 254}}}]", "partitions[0]: not a name of a file"),
        ("files: [{name: meta.properties/x}]", "meta.properties is a file and a folder"),
        ("partitions: [{topic: a}]\nfiles: [{name: a-0}]", "a-0 is a file and a folder"),
        ("log_dir: {date: 'a\n\n  b'}", "log_dir: date is one line of ASCII"),
        ("clock: -1", "clock: a log begins in 1970 or later"),
        (log("generate: {records: 1, epoch: 1}"), "partitions[0].log[0]: epoch goes with producer"),
        ("files: [{name: ../a}]", "files[0]: not a name of a file within its folder"),
        ("partitions: [{topic: a, topic_id: x}]", "partitions[0]: "),
        ("a: &a [1]\nb: *a", "line 2: aliases are not taken"),
        ("a: !!python/object:os.system x", "line 1: tags are not taken"),
        ("[" * 100, "line 1: more than 32 levels"),
        ("clock: 1\nclock: 2", "line 2: the key clock is there twice"),
        ("{a: 1}: 2", "line 1: a key is a text"),
        ("clock: [", "line 2: "),
        ("\x00", "not YAML: "),
        ("clock: 99999999999999999999", "clock: "),
        ("- 1", "the spec: expected"),
        ("--- {}\n--- {}", "line 2: a second document"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(text: str, reason: str) -> None:
    told = wrong(text)
    assert told.startswith(reason), told
    assert "\n" not in told


def test_an_error_leaves_nothing(tmp_path: pathlib.Path, klogtool: Callable[..., Done]) -> None:
    (tmp_path / "spec.yaml").write_text(log("batch: {codec: zip}"))
    done = klogtool("build", "spec.yaml", "--output", "logs", folder=tmp_path)
    assert (done.status, done.out) == (2, b"")
    assert done.err == "klogtool: spec.yaml: partitions[0].log[0].batch.codec: invalid enum value 'zip'\n"
    assert sorted(os.listdir(tmp_path)) == ["spec.yaml"]


def test_an_output_that_is_not_empty_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/mine").write_text("mine")
    done = run_here(["build", str(ORDERS), "--output", "logs"], tmp_path)
    assert (done.status, done.err) == (3, "klogtool: logs: the output folder is not empty\n")
    assert os.listdir(tmp_path / "logs") == ["mine"]


def test_a_spec_that_is_made_in_python_is_the_one_that_is_read() -> None:
    records = (RecordSpec(key="a", value="1"),)
    made = Spec(
        partitions=(
            PartitionSpec(
                topic="t", log=(StepSpec(batch=Batch(records=records)), StepSpec(generate=Generated(records=3)))
            ),
        )
    )
    read = read_spec(log("batch: {records: [{key: a, value: '1'}]}", "generate: {records: 3}").encode())
    assert files_of(made) == files_of(read)


def test_wounds_are_done_at_the_end_and_nothing_derived_knows_of_them() -> None:
    sound = ORDERS.read_text()
    log_name = "orders-0/00000000000000000000.log"
    before = files_of(sound)
    after = files_of(
        f"{sound}wounds:\n  - flip_bit: {{file: {log_name}, at: 70, bit: 3}}\n"
        "  - drop_index: {file: orders-0, segment: 5}\n  - unclean_stop: {}\n"
    )
    flipped = bytearray(before[log_name])
    flipped[70] ^= 8
    gone = {"orders-0/00000000000000000005.index", ".kafka_cleanshutdown"}
    assert after == {name: data for name, data in before.items() if name not in gone} | {log_name: bytes(flipped)}


@pytest.mark.parametrize(
    ("wound", "reason"),
    [
        ("{flip_bit: {file: x}}", "wounds[0].flip_bit of x: no such file"),
        ("{flop_bit: {file: x}}", "wounds[0]: there is no wound 'flop_bit'"),
        ("{flip_bit: 3}", "wounds[0]: the arguments of flip_bit are a mapping"),
        ("{}", "wounds[0]: a wound has one name"),
        ("{flip_bit: {at: x}}", "wounds[0]: flip_bit: "),
    ],
)
def test_a_wound_that_does_not_fit_is_one_line(wound: str, reason: str) -> None:
    told = wrong(f"wounds: [{wound}]")
    assert told.startswith(reason), told


def test_what_a_broker_refuses_is_an_error_of_the_description(tmp_path: pathlib.Path) -> None:
    (tmp_path / "spec.yaml").write_text(
        log("batch: {producer: 1, transactional: true, records: [{}]}", "batch: {producer: 1, records: [{}]}")
    )
    done = run_here(["build", "spec.yaml", "--output", "logs"], tmp_path)
    assert (done.status, done.out) == (2, b"")
    assert done.err.startswith(
        "klogtool: spec.yaml: partitions[0].log[1]: Expected transactional write from producer 1"
    )
    assert sorted(os.listdir(tmp_path)) == ["spec.yaml"]
