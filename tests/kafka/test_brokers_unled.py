"""A killed broker whose log dir goes offline at the next start: what becomes of the partitions that it leads there.

Kafka fails at the first of them, and leaves out the rest of that change, so it may lead none of the other log dir. The
next change is the first that it hears of the others: it makes empty folders for them where it can. These are in the
way later.
"""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any

import pytest

from .beside import module_beside
from .brokers import a_broker
from .test_brokers_start_on_it import a_scratch_folder
from .test_brokers_start_on_it import klogtool as run

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.nightly]

PARTITIONS = 24


@pytest.mark.parametrize(("version", "served"), [("3.9.2", None), ("4.3.1", True), ("4.4.0", True)])
def test_partitions_that_a_killed_broker_leads_in_an_offline_log_dir(version: str, served: bool | None) -> None:
    record = module_beside("brokers/broker.py").Record
    with a_scratch_folder() as work:
        d0, d1 = work / "d0", work / "d1"
        options = {"log_dir": [d0, d1], "metadata_in_log_dir": True, "config": {"log.dirs": f"{d0},{d1}"}}
        with a_broker(version, work / "broker", **options) as broker:
            broker.start()
            broker.create_topic("t", PARTITIONS)
            for partition in range(PARTITIONS):
                broker.produce("t", partition, [record(key=b"k", value=b"v")])
            broker.kill()
            on_d0, on_d1 = names_in(d0), names_in(d1)
            assert on_d0
            assert on_d1
            index = d1 / min(on_d1) / f"{0:020d}.index"
            index.unlink()
            index.mkdir()
            rows, told = asked(version, d0, d1)
            assert {row["served"] for row in rows if row["path"].startswith(f"{d0}/t-")} == {served}
            assert {row["served"] for row in rows if row["path"].startswith(f"{d1}/t-")} == {False}
            assert (f"mend {d1} before any start" in told, "the leader of" in told) == (True, served is None)
            broker.start()
            assert "publishing fault" in broker.log_text()
            if served:
                assert [broker.offsets("t", int(name[2:])) for name in on_d0] == [(0, 1)] * len(on_d0)
            until = time.monotonic() + 60
            while len(names_in(d0) & on_d1) < len(on_d1) - 1:
                assert time.monotonic() < until, names_in(d0)
                time.sleep(0.5)
            broker.stop()
            index.rmdir()
            assert "REFUSES to start" in asked(version, d0, d1)[1]
            with pytest.raises(Exception, match="Duplicate log directories"):
                broker.start()


def names_in(log_dir: pathlib.Path) -> set[str]:
    return {path.name for path in log_dir.glob("t-*")}


def asked(version: str, *log_dirs: pathlib.Path) -> tuple[list[dict[str, Any]], str]:
    """The claims about partitions, and the text in one line."""
    done = run("doctor", *log_dirs, "--kafka", version, "--json")
    claims = [row for row in map(json.loads, done.out.splitlines()) if row.get("about") == "partition"]
    text = run("doctor", *log_dirs, "--kafka", version).out.decode()
    return claims, " ".join(text.split())
