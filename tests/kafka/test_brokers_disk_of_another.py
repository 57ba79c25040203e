"""Brokers are started on the log dir of another one, whose node.id somebody changed: they end as the doctor says."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from running import run_here

from .beside import module_beside
from .brokers import a_broker
from .test_brokers_start_on_it import HERE, a_scratch_folder

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly]
TIMEOUT_MS = 15_000


def edited(broker: Any, node_id: int) -> list[pathlib.Path]:
    log_dirs = [*broker.log_dirs, *({broker.metadata_dir} - {*broker.log_dirs})]
    for path in log_dirs:
        file = path / "meta.properties"
        file.write_text(file.read_text().replace("node.id=1", f"node.id={node_id}"))
    return log_dirs


@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_a_broker_with_the_disk_of_another_is_not_registered(version: str) -> None:
    with a_scratch_folder() as work:
        with a_broker(version, work / "one") as broker:
            broker.start()
            broker.create_topic("t", 1)
            broker.stop()
            log_dirs = edited(broker, 2)
            home = broker.log_dirs[0]
        done = run_here(["doctor", *map(str, log_dirs), "--kafka", version, "--json"], HERE)
        rows = list(map(json.loads, done.out.splitlines()))
        (claim,) = [row for row in rows if row.get("about") == "broker"]
        assert (claim["starts"], claim["error"]) == (False, "InvalidRegistrationException")
        settings = {"initial.broker.registration.timeout.ms": TIMEOUT_MS, "metadata.log.dir": log_dirs[-1]}
        with a_broker(version, work / "two", log_dir=home, node_id=2, config=settings) as other:
            with pytest.raises(module_beside("brokers/broker.py").BrokerError):
                other.start()
            log = other.log_text() or other.output
        assert claim["message"] in log
        assert any(path.name.endswith("-stray") for path in home.glob("t-0.*"))
