"""What klogtool says that a release refuses of a broker's settings, compared with Kafka's own classes (KafkaConfig)."""

from __future__ import annotations

import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from refused_settings import SETTINGS, TOGETHER, on_top
from running import ROOT

from klogtool.broker.releases import Release, rules_of
from klogtool.broker.server_rules import find_refusals
from klogtool.broker.server_settings import Definition, definitions

from .brokers import fetched
from .kafka import BRIEF_JVM

sys.path.append(str(ROOT / "tools"))
from extract_settings import parse_row

pytestmark = pytest.mark.kafka
SOURCE = pathlib.Path(__file__).with_name("ServerSettings.java")
RELEASES: tuple[Release, ...] = ("4.3.1", "3.9.2", "4.4.0")
PAIRS = 1500
# As Strimzi, Bitnami's chart, Confluent's image and the distribution write them: each has to be judged as Kafka does.
OF_THE_FIELD = (
    """
node.id=1
process.roles=broker,controller
controller.listener.names=CONTROLPLANE-9090
controller.quorum.voters=0@c-0.brokers.ns.svc.cluster.local:9090,1@c-1.brokers.ns.svc.cluster.local:9090
listener.name.controlplane-9090.ssl.client.auth=required
listener.name.controlplane-9090.ssl.keystore.type=PKCS12
listener.name.replication-9091.ssl.client.auth=required
listener.security.protocol.map=CONTROLPLANE-9090:SSL,REPLICATION-9091:SSL,PLAIN-9092:PLAINTEXT,EXTERNAL-9094:SASL_SSL
listeners=CONTROLPLANE-9090://0.0.0.0:9090,REPLICATION-9091://0.0.0.0:9091,PLAIN-9092://0.0.0.0:9092
advertised.listeners=REPLICATION-9091://c-1.brokers.ns.svc:9091,PLAIN-9092://c-1.brokers.ns.svc:9092
inter.broker.listener.name=REPLICATION-9091
sasl.enabled.mechanisms=
ssl.endpoint.identification.algorithm=HTTPS
principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
log.dirs=/var/lib/kafka/data-0/kafka-log1
""",
    """
listeners=CLIENT://:9092,INTERNAL://:9094,CONTROLLER://:9093
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
advertised.listeners=CLIENT://k-0.k-headless:9092,INTERNAL://k-0.k-headless:9094
process.roles=controller,broker
controller.listener.names=CONTROLLER
controller.quorum.voters=0@k-0.k-headless:9093,1@k-1.k-headless:9093
node.id=0
inter.broker.listener.name=INTERNAL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.controller.protocol=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
log.dir=/bitnami/kafka/data
logs.dir=/opt/bitnami/kafka/logs
""",
    """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
log.retention.check.interval.ms=300000
""",
    """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@broker:29093
listeners=PLAINTEXT://broker:29092,CONTROLLER://broker:29093,PLAINTEXT_HOST://0.0.0.0:9092
advertised.listeners=PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
group.initial.rebalance.delay.ms=0
log.dirs=/tmp/kraft-combined-logs
""",
)
NO_ROUTE = "1@0.0.0.0:9093"
NOT_ROUTABLE = ("ConfigException", "Host string (0.0.0.0) is not routeable")


def answers(release: Release, files: Sequence[dict[str, str]], work: pathlib.Path, *words: str) -> list[str]:
    """What Kafka says of each file; with words, the lines of its table."""
    jars = fetched(release).cache_home() / release / "jars"
    command = ["javac", "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", str(work), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    text = "".join("\0".join(f"{name}={value}" for name, value in file.items()) + "\n" for file in files)
    command = ["java", *BRIEF_JVM, "-cp", f"{work}:{jars}/*", SOURCE.stem, *words]
    done = subprocess.run(command, input=text.encode(), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [line[1:] for line in done.stdout.decode().splitlines() if line.startswith(">")]


def values_of(row: Definition) -> Iterator[str]:
    """At the bounds, beside them, and of another type."""
    if row.type in ("int", "short", "long", "double"):
        for bound in (row.least, row.most):
            yield from () if bound is None else (str(bound), str(bound - 1), str(bound + 1))
        yield from ("", "x", "1.5", "-1", " 7 ", "+7", "99999", "3000000000", "99999999999999999999", "1_000", "1e3")
    elif row.type == "boolean":
        yield from ("True", " false", "yes", "")
    else:
        yield from ("", ",", "x", *row.words, *map(str.lower, row.words), ",".join(row.words))


def is_judged(file: dict[str, str]) -> bool:
    """Assignors may be on a class path that nobody knows here, a process with ZooKeeper is not judged, and KafkaConfig
    does not ask for the class of a remote storage."""
    others = (
        "remote.log.storage.system.enable",
        *(f"group.{kind}.assignors" for kind in ("consumer", "share", "streams")),
    )
    return bool(file.get("process.roles", "x").strip(" ,")) and file.keys().isdisjoint(others)


def law(release: Release, files: Sequence[dict[str, str]], work: pathlib.Path) -> None:
    differ = []
    files = [*filter(is_judged, files)]
    for file, said in zip(files, answers(release, files, work), strict=True):
        found = [(str(one.kafka_class), one.reason) for one in find_refusals(file, rules_of(release))[:1]]
        expected = [tuple(said.split("\t", 1))] if said else []
        if file.get("controller.quorum.voters") == NO_ROUTE and found == [NOT_ROUTABLE]:
            continue  # KafkaRaftManager looks once more
        if release == "3.9.2":  # its lists are shown in another way
            found, expected = [one[:1] for one in found], [one[:1] for one in expected]
        if found != expected and NOT_ROUTABLE not in expected:
            differ.append((dict(file.items() - SETTINGS.items()), found, expected))
    assert differ == []


@pytest.mark.parametrize("release", RELEASES)
def test_the_table_is_that_of_the_release(release: Release, tmp_path: pathlib.Path) -> None:
    rows = filter(None, map(parse_row, answers(release, [], tmp_path, "table")))
    own = [
        {
            name: value
            for name in row.__struct_fields__
            if (value := getattr(row, name)) not in (None, (), False) or value == 0
        }
        for row in definitions(release).values()
    ]
    for row in own:
        for name in ("since", "until", *(name for name, value in row.items() if value is False)):
            row.pop(name, None)
    kafkas = [{name: tuple(value) if name == "words" else value for name, value in row} for row in rows]
    assert sorted(own, key=str) == sorted(kafkas, key=str)


@pytest.mark.parametrize("release", RELEASES)
def test_each_value_is_judged_as_the_release_judges_it(release: Release, tmp_path: pathlib.Path) -> None:
    rows = definitions(release).values()
    law(release, [on_top({row.name: value}) for row in rows for value in values_of(row)], tmp_path)


@pytest.mark.parametrize("release", RELEASES)
def test_settings_are_judged_together_as_the_release_judges_them(release: Release, tmp_path: pathlib.Path) -> None:
    chance = random.Random(7)
    pairs = [on_top(*chance.sample(TOGETHER, 2)) for _ in range(PAIRS)]
    law(release, [*map(on_top, TOGETHER), *pairs], tmp_path)


@pytest.mark.parametrize("release", RELEASES)
def test_files_of_the_field_are_judged_as_the_release_judges_them(release: Release, tmp_path: pathlib.Path) -> None:
    """As they are, and with one line left out."""
    files = [dict(line.split("=", 1) for line in text.split()) for text in OF_THE_FIELD]
    assert all(not find_refusals(file, rules_of(release)) for file in files)
    without = [{key: file[key] for key in file if key != left_out} for file in files for left_out in file]
    law(release, [*files, *without], tmp_path)
