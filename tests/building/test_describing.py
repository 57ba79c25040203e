"""A description of any log dir builds the same bytes again; of a spec's own log dir, it says the same in words."""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import FIXTURES, ROOT, run_here

from klogtool.building import Spec, read_spec
from klogtool.building.describing import describe
from klogtool.building.log_dir import build_log_dir
from klogtool.building.places import WrongSpec
from klogtool.disk.building import build
from klogtool.render.spec import spec_lines

LOG_DIRS = sorted({path.parent for path in FIXTURES.rglob("recovery-point-offset-checkpoint")})
CORPUS = ROOT.parent / "shared/corpus"
Files = dict[str, bytes]


def files_of(spec: Spec) -> Files:
    made = build_log_dir(spec, "/logs").draft
    return {name: made.read(name) for name in made.names()}


def bytes_of(folder: pathlib.Path, prefix: str = "") -> Files:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {prefix + str(path.relative_to(folder)): path.read_bytes() for path in found}


def text_of(spec: Spec) -> str:
    return "".join(f"{line}\n" for line in spec_lines(spec))


def described(folder: pathlib.Path) -> Spec:
    """The description of a folder, written as a file and read back."""
    spec = describe(str(folder), "4.3.1").spec
    assert read_spec(text_of(spec).encode()) == spec
    return spec


def raw_steps(spec: Spec) -> int:
    return sum(step.raw is not None for part in spec.partitions for segment in part.segments for step in segment.log)


@pytest.mark.parametrize("folder", LOG_DIRS, ids=lambda folder: str(folder.relative_to(FIXTURES)))
def test_a_real_brokers_log_dir_is_built_again_from_its_description(folder: pathlib.Path) -> None:
    assert files_of(described(folder)) == bytes_of(folder)


@pytest.mark.slow
@pytest.mark.shared
def test_every_log_dir_of_the_corpora_is_built_again_from_its_description() -> None:
    folders = {path.parent for path in CORPUS.rglob("recovery-point-offset-checkpoint")}
    assert len(folders) > 20
    for folder in folders:
        assert files_of(described(folder)) == bytes_of(folder), folder


def test_a_partition_dir_is_described_without_a_log_dir() -> None:
    folder = FIXTURES / "transactions/logdir/t-0"
    spec = described(folder)
    assert spec.log_dir is None
    assert not raw_steps(spec)
    assert not spec.partitions[0].files
    assert files_of(spec) == bytes_of(folder, "t-0/")


def test_sound_batches_of_every_codec_are_in_words_and_their_side_files_follow() -> None:
    spec = described(FIXTURES / "every-codec/logdir")
    assert not raw_steps(spec)
    assert not any(partition.files or partition.absent for partition in spec.partitions)


def test_damage_is_raw_and_what_is_around_it_is_in_words() -> None:
    (partition,) = described(FIXTURES / "killed-mid-append/logdir/flip-bit-0").partitions
    steps = [step for segment in partition.segments for step in segment.log]
    assert sum(step.raw is not None for step in steps) == 1
    assert sum(step.batch is not None for step in steps) > 20


# Random specs.

TEXTS = st.text(max_size=8)
DATA: Any = st.one_of(st.none(), TEXTS, st.binary(max_size=9).map(lambda data: {"hex": data.hex()}))
HEADERS = st.lists(st.tuples(TEXTS, DATA), max_size=2)
TIMES = st.one_of(st.none(), st.integers(0, 1 << 42), st.just("2024-02-29T10:00:00Z"))
CODECS = st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])
RECORDS = st.lists(
    st.fixed_dictionaries({}, optional={"key": DATA, "value": DATA, "headers": HEADERS, "timestamp": TIMES}), max_size=4
)
BATCHES = st.fixed_dictionaries(
    {"records": RECORDS},
    optional={"codec": CODECS, "leader_epoch": st.integers(0, 2), "log_append_time": st.integers(0, 1 << 42)},
)
OF_A_PRODUCER = st.fixed_dictionaries(
    {"records": RECORDS.filter(len), "producer": st.integers(0, 2)},
    optional={"transactional": st.booleans(), "epoch": st.just(0)},
)
STEPS: Any = st.one_of(
    BATCHES.map(lambda batch: {"batch": batch}),
    OF_A_PRODUCER.map(lambda batch: {"batch": batch}),
    st.integers(0, 2).map(lambda producer: {"commit": producer}),
    st.integers(0, 2).map(lambda producer: {"abort": producer}),
    st.just("roll"),
    st.integers(1, 9).map(lambda gap: {"gap": gap}),
    st.fixed_dictionaries({"records": st.integers(1, 40), "seed": st.integers(0, 9)}, optional={"codec": CODECS}).map(
        lambda generate: {"generate": generate}
    ),
)
OLD_STEPS: Any = st.fixed_dictionaries(
    {"records": st.lists(st.fixed_dictionaries({"value": TEXTS}, optional={"key": DATA}), min_size=1, max_size=4)},
    optional={"codec": st.sampled_from(["none", "gzip", "snappy", "lz4"])},
).map(lambda batch: {"batch": batch})
PARTITIONS = st.one_of(
    st.fixed_dictionaries({"log": st.lists(STEPS, max_size=8)}, optional={"start": st.integers(0, 1 << 40)}),
    st.fixed_dictionaries({"log": st.lists(OLD_STEPS, max_size=8), "magic": st.integers(0, 1)}),
)
CONFIGS = st.sampled_from([{}, {"segment.bytes": 700, "index.interval.bytes": 100}, {"segment.ms": 60_000}])


def spec_of(rows: dict[str, Any]) -> Spec | None:
    """The spec, or None where a broker would not append it (a batch above segment.bytes, a time that goes back ...)."""
    import msgspec

    spec = msgspec.convert(rows, Spec)
    try:
        files_of(spec)
    except WrongSpec:
        return None
    return spec


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PARTITIONS, max_size=2), CONFIGS, st.integers(0, 1 << 30))
def test_build_then_spec_then_build_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, partitions: list[dict[str, Any]], config: dict[str, Any], seed: int
) -> None:
    rows = [{"topic": f"t{n}", **partition} for n, partition in enumerate(partitions)]
    spec = spec_of({"partitions": rows, "config": config})
    if spec is None:
        return
    folder = tmp_path_factory.mktemp("built") / "logs"
    build(spec, folder)
    assert bytes_of(folder) == files_of(spec)
    again = described(folder)
    assert files_of(again) == bytes_of(folder)
    assert not raw_steps(again)
    wound(folder, random.Random(seed))
    assert files_of(described(folder)) == bytes_of(folder)


def wound(folder: pathlib.Path, numbers: random.Random) -> None:
    """Flip, cut and grow a few files."""
    for path in numbers.sample(sorted(path for path in folder.rglob("*") if path.is_file()), k=2):
        data = bytearray(path.read_bytes())
        if data:
            data[numbers.randrange(len(data))] ^= 1 << numbers.randrange(8)
        cut = data[: numbers.randrange(len(data) + 1)]
        path.write_bytes(numbers.choice([data, cut, data + numbers.randbytes(5), cut + bytes(99)]))


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["a/b.log"], "no such file or directory"),
        (["fixtures/every-codec/logdir/append-0/00000000000000000000.log"], "not of a file"),
        (["fixtures/every-codec/logdir", "fixtures/every-codec/logdir"], "describes one partition dir or log dir"),
        (["fixtures/every-codec/logdir", "--grep", "a"], "--grep does not go with --format spec"),
        (["fixtures/every-codec/logdir", "--output", "a"], "--output is for arrow and parquet"),
    ],
)
def test_what_cannot_be_described_is_an_error_of_usage(args: list[str], reason: str) -> None:
    done = run_here(["dump-log", "--format", "spec", *args], ROOT)
    assert (done.status, done.out) == (2, b"")
    assert reason in done.err


def test_texts_that_look_like_something_else_are_read_back() -> None:
    texts = ["null", "true", "17", "1.5", "~", "", " a", "a: b", "#", "no", "12:30", "'\"\\", '{"a": 1}', "it's"]
    texts += ["\u2028", "\x85", "\ufeff", "\x00", "\t\n", "\U0001f600"]
    rows = [{"key": text, "value": text} for text in texts]
    import msgspec

    spec = msgspec.convert({"partitions": [{"topic": "t", "log": [{"batch": {"records": rows}}]}]}, Spec)
    assert read_spec(text_of(spec).encode()) == spec


def test_odd_names_and_foreign_things_are_described_or_told_of(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "logs"
    build(read_spec(b"partitions: [{topic: t, log: [{batch: {records: [{}]}}]}]"), folder)
    (folder / "meta.properties").write_bytes(b"#\n#a\rnode.id=3\nversion=9\n")
    for name in (
        b"t-0/\xff\xfe",
        b"\xff-0/a",
        b"lost+found/x/a b",
        "t-0/ü.log".encode(),
        b"t-0/00000000000000000001.log",
    ):
        path = pathlib.Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name)
    (folder / "link").symlink_to("nowhere")
    (folder / ".lock").write_bytes(b"")
    wanted = {name: data for name, data in bytes_of(folder).items() if name != "link"}
    assert files_of(described(folder)) == wanted
    done = run_here(["dump-log", "--format", "spec", "logs"], tmp_path)
    assert (done.status, done.told.count("logs/link")) == (0, 1)


def test_more_than_a_description_may_have_is_refused(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    with (folder / f"{0:020d}.log").open("wb") as log:
        log.truncate(1 << 40)
    done = run_here(["dump-log", "--format", "spec", "t-0"], tmp_path)
    assert (done.status, done.out) == (4, b"")
    assert "too much for a description" in done.err
