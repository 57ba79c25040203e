"""What salvage writes, under Kafka's own log layer and under real brokers: nothing is left to recover, all is served.

The wounds are those of a disk: bits, torn ends, zeroed pages, segments that are gone; over every format there was.
"""

from __future__ import annotations

import pathlib
import random
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from .beside import module_beside
from .brokers import CUTS, VERSIONS, a_broker, records_of, served
from .kafka import scratch_folder

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from damage import append_bytes, flip_bit, tear_at, zero_from  # noqa: E402
from running import FIXTURES  # noqa: E402
from salvaging import NOW_MS, batches, check_laws, logs, plan_salvage, write_result  # noqa: E402

pytestmark = [pytest.mark.kafka, pytest.mark.shared]
Path = pathlib.Path
SOURCES = {
    "three": "three-magics/logdir/plain-0",
    "packed": "three-magics/logdir/packed-0",
    "epochs": "leader-epochs/logdir/t-0",
    "txns": "transactions/logdir/t-0",
    "codecs": "every-codec/logdir/create-3",
    "old": "magic-0/logdir/create-2",
    "one": "magic-1/logdir/append-1",
    "clean": "compacted/result-2/gone-0",
}
WITH_REPLICA = ("three", "codecs")


def wound(partition: Path, rng: random.Random) -> None:
    """A flipped bit in each segment, a header field that no checksum covers, and a torn or zeroed tail."""
    for path in logs(partition):
        if path.stat().st_size:
            flip_bit(path, rng.randrange(path.stat().st_size), rng.randrange(8))
    first, last = (path for path in (logs(partition)[0], logs(partition)[-1]))
    flip_bit(first, 16 * rng.randrange(2) + rng.randrange(8))
    if rng.random() < 0.5:
        tear_at(last, last.stat().st_size - 5)
    else:
        append_bytes(last, bytes(200))
    if len(logs(partition)) > 3:
        zero_from(logs(partition)[1], logs(partition)[1].stat().st_size // 2)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder in memory: brokers sync everything they write."""
    folder = scratch_folder("klogtool-salvage-")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The result of salvage for each source, by name; two were filled from a sound copy."""
    root = tmp_path_factory.mktemp("salvaged")
    found = {}
    for number, (name, source) in enumerate(SOURCES.items()):
        partition = Path(shutil.copytree(FIXTURES / source, root / "damaged" / f"{name}-0"))
        wound(partition, random.Random(number))
        replicas = [FIXTURES / source] if name in WITH_REPLICA else []
        plan = plan_salvage(partition, *replicas)
        found[name] = write_result(plan, root / "salvaged")
        check_laws(plan, found[name])
        if replicas:
            assert [b.data for b in batches(found[name])] == [b.data for b in batches(FIXTURES / source)]
        else:
            assert plan.answer["lost"]
    return found


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    """Kafka's log layer, in one JVM."""
    with module_beside("oracle/client.py").Oracle() as asked:
        yield asked


@pytest.mark.parametrize("name", SOURCES)
def test_recovery_finds_nothing_to_do(results: dict[str, Path], oracle: Any, name: str, scratch: Path) -> None:
    partition = Path(shutil.copytree(results[name], scratch / f"{name}-0"))
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    told = oracle.ask("recover", dir=str(partition), clean=False, recovery_point=0, now_ms=NOW_MS)
    assert "error" not in told
    assert (told["truncated"], told["deleted_segments"], told["split"]) == ([], [], False)
    kept = list(batches(results[name]))
    assert told["log_end_offset"] == kept[-1].last_offset + 1
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


@pytest.mark.slow
def test_random_wounds_all_load(oracle: Any, scratch: Path) -> None:
    """A hundred of them; where the log ends is where klogtool said."""
    for seed in range(100):
        rng = random.Random(seed)
        name = rng.choice(list(SOURCES))
        partition = Path(shutil.copytree(FIXTURES / SOURCES[name], scratch / str(seed) / f"{name}-0"))
        wound(partition, rng)
        plan = plan_salvage(partition)
        result = write_result(plan, scratch / str(seed) / "salvaged")
        before = {path.name: path.read_bytes() for path in result.iterdir()}
        told = oracle.ask("recover", dir=str(result), clean=False, recovery_point=0, now_ms=NOW_MS)
        assert told.get("truncated") == [], f"seed {seed}: {told}"
        assert told["log_end_offset"] == plan.answer["log_end_offset"], f"seed {seed}"
        assert {path.name: path.read_bytes() for path in result.iterdir()} == before, f"seed {seed}"
        shutil.rmtree(scratch / str(seed))


@pytest.mark.nightly
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_starts_on_it_and_serves_all_that_was_kept(
    results: dict[str, Path], version: str, scratch: Path
) -> None:
    with a_broker(version, scratch) as broker:
        broker.start()
        for name in results:
            broker.create_topic(name, 1, retention_ms=-1, segment_bytes=1 << 20)
        broker.stop()
        planted = {name: broker.plant(result, name, 0) for name, result in results.items()}
        before = {name: [path.read_bytes() for path in logs(partition)] for name, partition in planted.items()}
        broker.start()
        found = {name: served(broker, name) for name in results}
        said = broker.log_text()
        broker.stop()
        after = {name: [path.read_bytes() for path in logs(partition)] for name, partition in planted.items()}
    assert found == {name: records_of(result) for name, result in results.items()}
    assert after == before
    assert not [words for words in CUTS if words in said]
