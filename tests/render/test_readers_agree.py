"""Both readers on logs by chance, sound and damaged: the same lines, the same end, for the same reason."""

from __future__ import annotations

import random

import pytest
from damage import heal_checksums
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.damage import KINDS, harm
from kafka.generated import by_klogtool, shapes
from msgspec.structs import replace
from raw_batches import build_batch
from readers import (
    DEEP,
    PRINT,
    PRINT_AS_SCALA,
    PRINT_AS_SCALA_WITHOUT_METADATA,
    PRINT_WITHOUT_METADATA,
    SHALLOW,
    Reader,
)
from vectors import BATCH_GZIP

from klogtool import kernels
from klogtool.format.batch import CODEC_NAMES, Header, Record
from klogtool.render.csv_lines import CsvPlace
from klogtool.render.selection import LARGEST, SMALLEST, DumpForm, RecordOptions, Selection

pytestmark = pytest.mark.skipif(not kernels.is_built(), reason="needs the extension, which is not built")

FORMS = (
    DumpForm(SHALLOW),
    DumpForm(DEEP),
    DumpForm(PRINT),
    DumpForm(PRINT_WITHOUT_METADATA),
    DumpForm(PRINT_AS_SCALA),
    DumpForm(PRINT_AS_SCALA_WITHOUT_METADATA),
    DumpForm(json_file="t-0/0.log"),
    DumpForm(csv=CsvPlace.of("t", 0, "0.log")),
)


def assert_alike(data: bytes, form: DumpForm, story: str = "", **how: int) -> None:
    """The kernels in such windows, on so many threads, and the reference in one piece say the same."""
    reference = Reader("reference").show(data, form)
    assert Reader("kernel").show(data, form, **how) == reference, f"{story}, {form}, {how}"


def any_way(rng: random.Random) -> dict[str, int]:
    """In windows and spans so small that entries straddle them, or of their real size."""
    return {
        "window_bytes": rng.choice((64, 300, 5000, 1 << 19)),
        "jobs": rng.choice((1, 2, 3)),
        "span_bytes": rng.choice((200, 1000, 4000, 2 << 20)),
    }


def generated(rng: random.Random, magics: tuple[int, ...] = (0, 1, 2)) -> bytes:
    return b"".join(by_klogtool(shape) for shape in shapes(rng, magics=magics, codecs=CODEC_NAMES))


def any_selection(rng: random.Random) -> Selection | None:
    if rng.random() < 0.5:
        return None
    low, high = sorted((rng.randrange(60), rng.randrange(60)))
    always = (SMALLEST, LARGEST)
    return Selection(
        rng.choice(((low, high), always)),
        rng.choice(((0, 0), (1_700_000_000_000, LARGEST), always, always)),
        rng.choice((None, None, -1, 1000)),
        rng.choice((None, None, None, b"", b"key")),
        rng.choice((None, None, None, b"", b"\xff", b"ke")),
    )


def any_form(rng: random.Random) -> DumpForm:
    deep, print_data, skip_metadata = (rng.random() < 0.5 for _ in range(3))
    options = RecordOptions(deep or print_data, print_data, skip_metadata)  # as the command line has it
    json_file = rng.choice((None, None, "ü/0.log"))
    csv = CsvPlace.of("ü", 1, "0.log") if json_file is None and rng.random() < 0.2 else None
    return DumpForm(options, any_selection(rng), json_file, go_on=rng.random() < 0.3, csv=csv)


@pytest.mark.parametrize("seed", range(40))
def test_both_readers_agree_on_generated_logs(seed: int) -> None:
    rng = random.Random(f"log lines {seed}")
    data = generated(rng, ((0, 1, 2), (2,), (1,), (0,))[seed % 4])
    for _ in range(3):
        assert_alike(data, any_form(rng), f"seed {seed}", **any_way(rng))


OTHER_FILES = ("index", "other-file", "transaction", "snapshot", "name", "folder")


@pytest.mark.parametrize("kind", [name for name in KINDS if not any(word in name for word in OTHER_FILES)])
def test_both_readers_agree_on_damage(kind: str) -> None:
    for seed in range(8):
        rng = random.Random(f"{kind} {seed}")
        name = "nothing"
        while name == "nothing":
            files = {"t-0/00000000000000000000.log": generated(rng)}
            name, story = harm(files, rng, only=kind)
        assert kind in name
        (data,) = files.values()
        assert_alike(data, any_form(rng), f"seed {seed}: {story}", **any_way(rng))


records = st.builds(
    Record,
    st.just(0),
    st.integers(-1, 2**61),
    st.none() | st.binary(max_size=12),
    st.none() | st.binary(max_size=12),
    st.lists(st.builds(Header, st.binary(max_size=4), st.none() | st.binary(max_size=4)), max_size=2).map(tuple),
)


@pytest.mark.slow
@given(st.lists(records, min_size=1, max_size=4), st.sampled_from(CODEC_NAMES), st.booleans(), st.data())
@settings(deadline=None, max_examples=80)
def test_both_readers_agree_on_a_batch_with_any_byte_changed(
    drawn: list[Record], codec: str, healed: bool, data: st.DataObject
) -> None:
    batch = build_batch([replace(record, offset=n) for n, record in enumerate(drawn)], codec=codec)
    wounded = bytearray(batch + BATCH_GZIP.data)
    for _ in range(data.draw(st.integers(0, 2))):
        wounded[data.draw(st.integers(0, len(wounded) - 1))] = data.draw(st.integers(0, 255))
    if healed:
        heal_checksums(wounded)
    for form in FORMS:
        assert_alike(bytes(wounded), form)
