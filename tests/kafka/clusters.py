"""Real clusters of several nodes, each a broker and a controller: the brokers of ../shared with one quorum of all."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from .beside import module_beside
from .brokers import a_broker

INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


class Cluster:
    """Nodes 1 to `size`. Each has its log dir and, apart from it, its metadata dir."""

    def __init__(self, brokers: list[Any]) -> None:
        self.brokers = brokers

    @property
    def bootstrap(self) -> str:
        """Return where clients begin."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def one(self) -> Any:
        """Return the first node, as which clients and tools run."""
        return self.brokers[0]

    def start(self) -> None:
        """Start all at once, and wait until each serves."""
        self._all(lambda broker: broker.start(timeout=150))

    def stop(self) -> None:
        """Stop all at once, cleanly."""
        self._all(lambda broker: broker.stop())

    def kill(self) -> None:
        """Kill all at once."""
        self._all(lambda broker: broker.kill())

    def format(self) -> None:
        """Give each log dir and metadata dir that has none a meta.properties."""
        for broker in self.brokers:
            broker._format()

    def create(self, topic: str, assignment: str, **config: object) -> str:
        """Create a topic; return its id. assignment: the replicas of each partition, as in `1:2:3,2:3:1`."""
        settings = [w for k, v in config.items() for w in ("--config", f"{k.replace('_', '.')}={v}")]
        words = ("--create", "--topic", topic, "--replica-assignment", assignment, *settings)
        self.one.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.bootstrap, *words)
        return str(self.one.topic_id(topic))

    def _all(self, work: Any) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(work, self.brokers))


@contextmanager
def a_cluster(
    version: str, work: pathlib.Path, size: int, config: Mapping[str, object] | None = None
) -> Iterator[Cluster]:
    """A cluster that is not started yet; nothing of it is left running."""
    module = module_beside("brokers/broker.py")
    ports = [module.free_port() for _ in range(size)]
    shared = {
        "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(ports, 1)),
        "controlled.shutdown.max.retries": 3,
        **{f"{topic}.replication.factor": size for topic in INTERNAL_TOPICS},
        **(config or {}),
    }
    cluster_id = module.new_uuid()
    with ExitStack() as stack:
        brokers = []
        for n, port in enumerate(ports, 1):
            options = {"node_id": n, "cluster_id": cluster_id, "config": shared, "heap": "320m"}
            broker = stack.enter_context(a_broker(version, work / f"node-{n}", **options))
            broker._controller_port = port
            brokers.append(broker)
        yield Cluster(brokers)
