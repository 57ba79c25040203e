"""Objects of remote storage: names, manifests, chunks, keys; and the same hostile."""

from __future__ import annotations

import base64
import json
import pathlib
import random
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_stores import REMOTE, SEALED, SHARED, STORE, ZSTD, key, log_bytes, offsets_in

from klogtool.errors import Corrupt, KlogError, Unsupported
from klogtool.format.codecs import compress
from klogtool.format.names import FileKind
from klogtool.format.tiered.manifest import SegmentManifest, parse_chunk_sizes, parse_manifest
from klogtool.format.tiered.objects import TierLayout, parse_object_name, recognise
from klogtool.format.tiered.sealing import parse_private_key
from klogtool.remote.described import describe
from klogtool.remote.segment_file import find_side_file, open_log
from klogtool.remote.store import open_store

Path = pathlib.Path
MANIFESTS = sorted(REMOTE.rglob("*.rsm-manifest"))
IDS = st.text("abXY019-_", min_size=22, max_size=22)


@given(st.text("a-b_.0", min_size=1, max_size=9), IDS, IDS, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_a_name_is_read_from_the_right(topic: str, topic_id: str, segment: str, partition: int, start: int) -> None:
    local = parse_object_name(f"a/b/{topic}-{partition}-{topic_id}/{start:020d}-{segment}.leader_epoch_checkpoint")
    aiven = parse_object_name(f"pre/{topic}-{topic_id}/{partition}/{start:020d}-{segment}.rsm-manifest")
    for found, layout in ((local, TierLayout.LOCAL), (aiven, TierLayout.AIVEN)):
        assert found is not None
        assert (found.layout, found.topic, found.start_offset) == (layout, topic, start)
        assert (found.key.topic_id, found.key.partition, found.key.segment_id) == (topic_id, partition, segment)


@pytest.mark.parametrize("start", [2**63, 10**20 - 1])
def test_a_name_with_an_offset_that_no_log_has_is_none_of_an_object(start: int) -> None:
    for folder in ("t-0-" + "A" * 22, "t-" + "A" * 22 + "/0"):
        assert parse_object_name(f"{folder}/{start:020d}-{'B' * 22}.log") is None
    assert parse_object_name(f"t-{'A' * 22}/{2**31}/{7:020d}-{'B' * 22}.log") is None


@pytest.mark.parametrize(
    ("path", "layout"),
    [
        ("x/metadata/AAAAAAAAAAAAAAAAAAAAAA.puffin", TierLayout.ICEBERG),
        ("x/y/t-0/00000000000000000007.log", TierLayout.PINTEREST),
        ("7c5e0000/_kafka_ns/12", TierLayout.AUTOMQ),
        ("README.md", TierLayout.UNKNOWN),
    ],
)
def test_other_layouts_are_recognised_and_not_read(path: str, layout: TierLayout) -> None:
    assert parse_object_name(path) is None
    assert recognise([path]) is layout


def test_chunk_sizes_of_real_manifests() -> None:
    three = base64.b64decode("KLUv/SAPeQAAAAAAAwAAAisBAB4AAACs")  # by Aiven's plugin
    assert parse_chunk_sizes(three, 3) == (555, 585, 172)
    assert parse_chunk_sizes(base64.b64decode("KLUv/SAIQQAAAAAAAQAAAXs="), 1) == (379,)
    with pytest.raises(Corrupt, match="the list has 3 chunks, the segment 2"):
        parse_chunk_sizes(three, 2)


@given(st.lists(st.integers(1, 2**31 - 1), max_size=40), st.integers(1, 4))
def test_chunk_sizes_survive_their_codec(sizes: list[int], width: int) -> None:
    data = len(sizes).to_bytes(4, "big")
    if len(sizes) > 1:
        base = min(sizes[:-1])
        width = max(width, *((size - base).bit_length() + 7 >> 3 for size in sizes[:-1]))
        data += (
            base.to_bytes(4, "big") + bytes([width]) + b"".join((s - base).to_bytes(width, "big") for s in sizes[:-1])
        )
    data += b"".join(size.to_bytes(4, "big") for size in sizes[-1:])
    assert parse_chunk_sizes(compress("zstd", data, magic=2), len(sizes)) == tuple(sizes)


@pytest.mark.parametrize("ahead_bytes", [1, 700, 1 << 20])
def test_chunks_are_the_log_again_however_it_is_read(ahead_bytes: int, tmp_path: Path) -> None:
    store = open_store(str(ZSTD))
    segments = sorted(store.segments.values(), key=lambda one: one.start_offset)
    data = b"".join(log_bytes(store, one, ahead_bytes) for one in segments)
    assert offsets_in(data, tmp_path) == list(range(47))
    described = [describe(store, one) for one in segments]
    assert [(one.start_offset, one.end_offset) for one in described] == [(0, 5), (6, 40), (41, 46)]
    assert {find_side_file(store, one, FileKind.LEADER_EPOCH_CHECKPOINT) for one in segments} == {b"0\n1\n0 0\n"}


def test_sealed_segments_need_their_key(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    store = open_store(str(SEALED), {"key1": key()})
    parts = sorted(((one.topic, one.start_offset, one) for one in store.segments.values()), key=lambda one: one[:2])
    data = b"".join(log_bytes(store, one) for topic, _, one in parts if topic == "orders")
    assert offsets_in(data, tmp_path) == list(range(120))
    for _, _, segment in parts:
        assert (find_side_file(store, segment, FileKind.LEADER_EPOCH_CHECKPOINT) or b"").startswith(b"0\n")
        with pytest.raises(Unsupported, match="--key key1=FILE"), open_log(open_store(str(SEALED)), segment):
            pass
    with pytest.raises(Corrupt, match="not a private RSA key"):
        parse_private_key(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    assert str(key().exponent) not in repr(key())


def test_a_changed_bit_of_a_sealed_chunk_is_found(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    shutil.copytree(SEALED, tmp_path / "store")
    store = open_store(str(tmp_path / "store"), {"key1": key()})
    segment = next(iter(store.segments.values()))
    assert segment.log is not None
    path = Path(segment.log.path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="tag") as told:
        log_bytes(store, segment)
    assert told.value.path == str(path)


def test_a_short_chunk_is_found(tmp_path: Path) -> None:
    shutil.copytree(ZSTD, tmp_path / "store")
    cut = next((tmp_path / "store").rglob("*.log"))
    cut.write_bytes(cut.read_bytes()[:-1])
    store = open_store(str(tmp_path / "store"))
    (segment,) = (one for one in store.segments.values() if one.log is not None and one.log.path == str(cut))
    with pytest.raises(Corrupt, match=r"chunk \d has \d+ of \d+ bytes"):
        log_bytes(store, segment)


def places(value: object) -> list[tuple[dict[str, object] | list[object], object]]:
    """Every place in a JSON value where another one can be put."""
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [(value, name) for name, _ in pairs] + [inner for _, one in pairs for inner in places(one)]


HOSTILE = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    2**200,
    0.5,
    "",
    "x",
    "fixed",
    "variable",
    "KLUv/SAPeQAAAA==",
    [],
    {},
    [[]],
]


@pytest.mark.parametrize("path", MANIFESTS[::5], ids=lambda path: path.parent.parent.name[:6])
def test_a_hostile_manifest_is_refused_in_words(path: Path) -> None:
    """Whatever stands at any place: a value that fits the rest, or one of our errors. Nothing large is taken for it."""
    rng = random.Random(path.name)
    text = path.read_text()
    whole = parse_manifest(text.encode())
    for _ in range(1_500):
        json_value = json.loads(text)
        for _ in range(rng.choice((1, 1, 2))):
            holder, name = rng.choice(places(json_value))
            holder[name] = rng.choice(HOSTILE)  # type: ignore[index]
        check(json.dumps(json_value).encode(), whole)
    for _ in range(500):
        data = bytearray(text.encode())
        data[rng.randrange(len(data))] = rng.randrange(256)
        check(bytes(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data), whole)
    for deep in (b"[" * 100_000, b'{"a":' * 100_000, b"", b"null", b"\xff" * 9):
        with pytest.raises(KlogError):
            parse_manifest(deep)


def check(data: bytes, whole: SegmentManifest) -> None:
    try:
        found = parse_manifest(data)
    except KlogError:
        return
    assert len(found.stored_sizes) * found.chunk_size >= found.size
    assert found.is_compressed or found.stored_size >= found.size
    assert len(found.stored_sizes) <= max(1 << 20, len(whole.stored_sizes))
    if found.segment is not None:  # Java's numbers
        assert found.segment.end_offset < 2**63 > found.segment.max_timestamp_ms
        assert all(epoch < 2**31 for epoch, _ in found.segment.epochs)


def test_more_chunks_than_a_segment_can_have_take_no_memory() -> None:
    value = json.loads(MANIFESTS[0].read_text())
    value["chunkIndex"] |= {"type": "fixed", "originalChunkSize": 1, "originalFileSize": 2**31 - 1}
    value["chunkIndex"] |= {"transformedChunkSize": 1, "finalTransformedChunkSize": 1}
    with pytest.raises(Unsupported, match="more than klogtool takes"):
        parse_manifest(json.dumps(value).encode())
    bomb = base64.b64encode(compress("zstd", bytes(1 << 26), magic=2)).decode()
    value["chunkIndex"] = {"type": "variable", "originalChunkSize": 9, "originalFileSize": 9, "transformedChunks": bomb}
    with pytest.raises(Corrupt, match="the list of chunk sizes"):
        parse_manifest(json.dumps(value).encode())


@pytest.mark.shared
@pytest.mark.parametrize("name", ["lts-healthy", "lts-retention", "aiven-plain", "aiven-zstd", "aiven-enc"])
def test_the_objects_say_what_the_metadata_said(name: str) -> None:
    sample = SHARED / name
    if not sample.exists():
        pytest.skip("no samples")
    der = sample / "key1.private.der.b64"
    if der.exists():
        pytest.importorskip("cryptography")
    store = open_store(str(sample / "remote"), {"key1": key(der)} if der.exists() else {})
    told = json.loads((sample / "expected.json").read_text())["segments_by_metadata"]
    for one in store.segments.values():
        said, found = told[one.key.segment_id], describe(store, one)
        assert (found.start_offset, found.size, dict(found.epochs)) == (
            said["start"],
            said["size"],
            {int(epoch): start for epoch, start in said["epochs"].items()},
        )
        assert (found.end_offset, found.max_timestamp_ms) == (said["end"], said["maxTs"])
    assert store.segments


def test_objects_of_a_plain_store_are_kafkas_files() -> None:
    store = open_store(str(STORE))
    assert {one.layout for one in store.segments.values()} == {TierLayout.LOCAL}
    assert not store.foreign
    assert not store.copies


def test_a_manifest_of_another_segment_says_nothing(tmp_path: Path) -> None:
    shutil.copytree(ZSTD, tmp_path / "store")
    first, second, _ = sorted((tmp_path / "store").rglob("*.rsm-manifest"))
    second.write_bytes(first.read_bytes())
    store = open_store(str(tmp_path / "store"))
    ordered = sorted(store.segments.values(), key=lambda one: one.start_offset)
    with pytest.raises(Corrupt, match="the manifest is that of segment gTyBSv1KTnGyPZSidSrdHQ from offset 0") as told:
        describe(store, ordered[1])
    assert told.value.path == str(second)
    assert [describe(store, one).start_offset for one in ordered[::2]] == [0, 41]


def test_the_folder_decides_whose_segment_it_is(tmp_path: Path) -> None:
    """The objects were copied for a topic of another cluster; their manifests name the old one."""
    (old,) = ZSTD.iterdir()
    folder = tmp_path / "store" / f"orders-{'A' * 22}"
    shutil.copytree(old, folder)
    store = open_store(str(tmp_path / "store"))
    described = [describe(store, one) for one in store.segments.values()]
    assert {(one.topic, one.key.topic_id, one.key.partition) for one in described} == {("orders", "A" * 22, 0)}
    folder.rename(folder.with_name(f"prefixpay-{'A' * 22}"))
    store = open_store(str(tmp_path / "store"))
    assert {describe(store, one).topic for one in store.segments.values()} == {"pay"}


def test_a_log_that_ends_before_its_name_begins_is_no_segment(tmp_path: Path) -> None:
    shutil.copytree(STORE, tmp_path / "store")
    old, new = sorted((tmp_path / "store").glob("orders-0-*/*.log"))[:3:2]
    new.write_bytes(old.read_bytes())
    store = open_store(str(tmp_path / "store"))
    (segment,) = (one for one in store.segments.values() if one.log is not None and one.log.path == str(new))
    with pytest.raises(Corrupt, match="cannot be a segment"):
        describe(store, segment)
