"""Real clusters of several nodes, each a broker and a controller: the brokers of ../shared with one quorum of all."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from .beside import module_beside
from .brokers import a_broker

INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


class Cluster:
    """Nodes 1 to `size`. Each has its log dir and, apart from it, its metadata dir. is_dynamic: the voters are in the
    metadata (KIP-853), not in the configuration."""

    def __init__(self, brokers: list[Any], *, is_dynamic: bool = False) -> None:
        self.brokers, self.is_dynamic = brokers, is_dynamic

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
            self._format(broker, "--no-initial-controllers") if self.is_dynamic else broker._format()

    def found(self, new_id: Callable[[], str]) -> None:
        """Format the nodes of a dynamic quorum as its first voters. new_id: returns an id for each."""
        voters = self.voters({broker.node_id: new_id() for broker in self.brokers})
        for broker in self.brokers:
            self._format(broker, "--initial-controllers", voters)

    def voters(self, directory_ids: Mapping[int, str]) -> str:
        """Return the controllers as kafka-storage takes them."""
        return ",".join(
            f"{broker.node_id}@127.0.0.1:{broker._controller_port}:{directory_ids[broker.node_id]}"
            for broker in self.brokers
        )

    def metadata_directory_ids(self) -> dict[int, str]:
        """Return the directory ids that the metadata dirs have got."""
        return {
            broker.node_id: re.findall(
                "(?m)^directory.id=(.*)$", (broker.metadata_dir / "meta.properties").read_text()
            )[0]
            for broker in self.brokers
        }

    def _format(self, broker: Any, *words: str) -> None:
        for folder in (*broker.log_dirs, broker.metadata_dir, broker.work):
            folder.mkdir(parents=True, exist_ok=True)
        path = broker.work / "format.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in broker.properties().items()))
        main = ("kafka.tools.StorageTool", "format", "--cluster-id", broker.cluster_id, "--ignore-formatted")
        broker.tool(*main, "--config", path, *words)

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
    version: str,
    work: pathlib.Path,
    size: int,
    config: Mapping[str, object] | None = None,
    *,
    is_dynamic: bool = False,
    log_dirs: int = 1,
) -> Iterator[Cluster]:
    """A cluster that is not started yet; nothing of it is left running. log_dirs: of each node."""
    module = module_beside("brokers/broker.py")
    ports = [module.free_port() for _ in range(size)]
    static = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(ports, 1))
    shared = {
        "controller.quorum.voters": "" if is_dynamic else static,
        "controlled.shutdown.max.retries": 3,
        **{f"{topic}.replication.factor": size for topic in INTERNAL_TOPICS},
        **(config or {}),
    }
    if is_dynamic:
        shared["controller.quorum.bootstrap.servers"] = ",".join(f"127.0.0.1:{port}" for port in ports)
    cluster_id = module.new_uuid()
    with ExitStack() as stack:
        brokers = []
        for n, port in enumerate(ports, 1):
            options = {"node_id": n, "cluster_id": cluster_id, "config": shared, "heap": "320m"}
            broker = stack.enter_context(a_broker(version, work / f"node-{n}", **options))
            broker._controller_port = port
            broker.log_dirs += [broker.work / f"logs-{number}" for number in range(2, log_dirs + 1)]
            brokers.append(broker)
        cluster = Cluster(brokers, is_dynamic=is_dynamic)
        if is_dynamic:
            cluster.found(module.new_uuid)
        yield cluster
