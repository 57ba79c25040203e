"""`--config-file server.properties`: the log dirs come from it, and what contradicts the disks is said."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest
from refused_settings import TOGETHER, on_top
from running import run_here
from startup import HERE

from klogtool.broker.releases import REFERENCE_RULES
from klogtool.broker.server_rules import find_refusals
from klogtool.doctor.messages import recognise
from klogtool.doctor.situation import Outcome

LISTENERS = "controller.listener.names=C\nlisteners=PLAINTEXT://:9092,C://:9093\n"
ROLES = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@h:9093\n" + LISTENERS
ACLS = "kafka.security.authorizer.AclAuthorizer"
FILE = "process.roles=broker,controller\nnode.id={node}\ncontroller.quorum.voters={voters}\n" + LISTENERS + "{dirs}\n"


def asked(
    disks: pathlib.Path, *named: str, node: str = "1", voters: str = "1@h:9093", dirs: str, kafka: str = "4.3.1"
) -> list[dict[str, str]]:
    shutil.copytree(HERE / "broker", disks)
    (disks / "server.properties").write_text(FILE.format(node=node, voters=voters, dirs=dirs))
    words = ["doctor", *named, "--config-file", "server.properties", "--kafka", kafka, "--format", "json"]
    return [json.loads(line) for line in run_here(words, disks).out.splitlines()]


def refusals(rows: list[dict[str, str]]) -> list[str]:
    return [pathlib.Path(row["path"]).name for row in rows if row.get("what") == "refuses"]


@pytest.mark.parametrize(
    "dirs",
    [
        "log.dirs=d0, d1",
        "log.dir=d0,d1",
        "log.dirs=d0,d1\nlog.dir=/nowhere",
        "log.dirs=d1\nmetadata.log.dir=d0",
        "log.dirs=d0,d1,d0",
        "log.dirs=/nowhere\r\n! log.dirs=/nowhere\r\n  log.dirs : \\u0064\\u0030 , \\\r\n   d1\r",
    ],
)
def test_the_log_dirs_come_from_the_file(tmp_path: pathlib.Path, dirs: str) -> None:
    disks = tmp_path / "disks"
    verdict = asked(disks, dirs=dirs)[1]
    assert (sorted(verdict["log_dirs"]), verdict["starts"]) == ([str(disks / "d0"), str(disks / "d1")], "yes")
    assert len(verdict["notes"]) == 1
    assert verdict["notes"][0].startswith("it is taken for granted that the nodes resolve h:")  # of its voters


def test_named_log_dirs_win(tmp_path: pathlib.Path) -> None:
    verdict = asked(tmp_path / "disks", "d0", "d1", dirs="log.dirs=d0,/other")[1]
    assert [pathlib.Path(path).name for path in verdict["log_dirs"]] == ["d0", "d1"]
    told = " ".join(verdict["notes"])
    assert "not named here: /other" in told
    assert "d1; a broker with this file does not use them" in told


def test_another_node_id(tmp_path: pathlib.Path) -> None:
    assert refusals(asked(tmp_path / "disks", node="7", voters="7@h:9093", dirs="log.dirs=d0,d1")) == [
        "meta.properties",
        "meta.properties",
    ]


def test_a_controller_that_is_no_voter(tmp_path: pathlib.Path) -> None:
    assert refusals(asked(tmp_path / "disks", voters="2@h:9093,3@i:9093", dirs="log.dirs=d0,d1")) == ["d0"]


def test_a_metadata_log_elsewhere(tmp_path: pathlib.Path) -> None:
    assert refusals(asked(tmp_path / "disks", dirs="log.dirs=d1,d0")) == ["__cluster_metadata-0"]


@pytest.mark.parametrize("own", ["log.dirs=d0,d1", "log.dirs=d1\nmetadata.log.dir=d0"])
@pytest.mark.parametrize("roles", ["broker,controller", "broker"])
def test_a_controller_begins_metadata_that_are_not_there_anew(tmp_path: pathlib.Path, own: str, roles: str) -> None:
    """It knows no topic then, and sets all partitions aside. A broker alone fetches the metadata from others."""
    asked(tmp_path / "disks", dirs=own)
    shutil.rmtree(tmp_path / "disks" / "d0" / "__cluster_metadata-0")
    file = tmp_path / "disks" / "server.properties"
    file.write_text(FILE.format(node="1", voters="1@h:9093", dirs=own).replace("broker,controller", roles))
    rows = [*map(json.loads, run_here(["doctor", "--config-file", str(file), "--json"], file.parent).out.splitlines())]
    lost = [row for row in rows if row["type"] == "ahead" and row["what"] == "metadata-lost"]
    assert [pathlib.Path(row["path"]).name for row in lost] == ["__cluster_metadata-0"] * (roles != "broker")
    assert all(row["lost_bytes"] > 0 for row in lost)


EMPTY = "Configuration '{}' must not be empty. Valid values include: any non-empty value"
EMPTY_NAME = "Configuration '{}' values must not be empty."
TWO_NAMES = "Duplicate directory ID Optional[j7fkVoUSM7cwDtdk0dPYcA] found. It was the ID of d0, but also of d0/"
NO_LOG_DIR = "requirement failed: At least one log directory must be defined via log.dirs or log.dir."


@pytest.mark.parametrize(
    ("kafka", "dirs", "told"),
    [
        ("4.3.1", "log.dirs=d0,d1,", EMPTY_NAME.format("log.dirs")),
        ("4.1.1", "log.dirs=d0,d1,", None),
        ("4.3.1", "log.dirs=d0,d1\nlog.dir=x,", EMPTY_NAME.format("log.dir")),
        ("4.3.1", "log.dirs=\nlog.dir=d0,d1", EMPTY.format("log.dirs")),
        ("4.1.1", "log.dirs= ,\nlog.dir=d0,d1", NO_LOG_DIR),
        ("4.1.1", "log.dirs=d0,d1,d0", "Duplicate log directory found: "),
        ("4.3.1", "log.dirs=d0,d1,d0/", TWO_NAMES),
        (
            "4.3.1",
            "log.dirs=d0,d1\nmetadata.log.dir=d0/",
            TWO_NAMES,
        ),
        ("4.3.1", "log.dirs=d0,d1\nmetadata.log.dir=d0,d1", "Found unexpected metadata location in data directory"),
    ],
)
def test_lists_that_a_release_refuses(tmp_path: pathlib.Path, kafka: str, dirs: str, told: str | None) -> None:
    """A broker 4.3.1 says these words; those of 4.1.1 are from its sources. Some files have no log dirs to look at."""
    rows = asked(tmp_path / "disks", "d0", "d1", dirs=dirs, kafka=kafka)
    messages = [row["exception"]["message"] for row in rows if row.get("what") == "refuses"]  # type: ignore[index]
    messages = [message for message in messages if "Unsupported metadata version" not in message]
    assert [message.startswith(told or "-") for message in messages] == [True] * (told is not None)


@pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
def test_two_names_of_a_log_dir_without_an_id(tmp_path: pathlib.Path, kafka: str) -> None:
    """MetaPropertiesEnsemble finds no id twice; LogManager finds one folder twice. So did both brokers."""
    disks = tmp_path / "disks"
    asked(disks, dirs="log.dirs=d0,d1", kafka=kafka)
    meta = disks / "d1/meta.properties"
    meta.write_text("".join(line for line in meta.read_text().splitlines(True) if "directory.id" not in line))
    (disks / "d2").symlink_to(disks / "d1")
    words = ["doctor", "d0", "d1", "d2", "--kafka", kafka, "--format", "json"]
    told = [json.loads(line) for line in run_here(words, disks).out.splitlines()]
    (said,) = (row["exception"]["message"] for row in told if row.get("path") == str(disks / "d2") and "what" in row)
    assert said == f"Duplicate log directory found: {disks}/d0, {disks}/d1, {disks}/d2"


PROVIDER = "\nconfig.providers=env\nconfig.providers.env.class=EnvVarConfigProvider"


@pytest.mark.parametrize(
    ("named", "node", "voters", "dirs", "unknown"),
    [
        (("d0", "d1"), "1", "1@h:9093", "log.dirs=${env:LOGS}", "log.dirs"),
        ((), "${env:NODE}", "1@h:9093", "log.dirs=d0,d1", "node.id"),
        ((), "1", "${env:A}@h:9093", "log.dirs=d0,d1", "controller.quorum.voters"),
        ((), "1", "1@h:9093", "log.dirs=d0,d1\nmetadata.log.dir=${env:dir:M}", "metadata.log.dir"),
    ],
)
def test_what_a_config_provider_has_is_not_judged(
    tmp_path: pathlib.Path, named: tuple[str, ...], node: str, voters: str, dirs: str, unknown: str
) -> None:
    rows = asked(tmp_path / "disks", *named, node=node, voters=voters, dirs=dirs + PROVIDER)
    assert refusals(rows) == []
    assert [note for note in rows[1]["notes"] if note.startswith(f"--config-file has {unknown} from")] != []


@pytest.mark.parametrize("name", ["log.segment.bytes", "log.retention.ms", "log.cleaner.enable", "log.cleanup.policy"])
def test_a_setting_of_logs_from_a_provider_is_not_guessed(name: str, tmp_path: pathlib.Path) -> None:
    """Kafka's default could delete what the broker's own value keeps."""
    shutil.copytree(HERE / "broker", tmp_path / "disks")
    (tmp_path / "server.properties").write_text(f"{name}=${{env:X}}{PROVIDER}\n")
    for words in (["doctor", "disks/d0", "disks/d1"], ["retain", "disks/d1/t-0"], ["compact", "disks/d1/t-0"]):
        done = run_here([*words, "--config-file", "server.properties"], tmp_path)
        assert (done.status, done.out) == (2, b"")
        assert f"{name} from a config provider" in done.told
        assert "a copy of the file" in done.told


def test_text_like_a_variable_without_a_provider_is_text(tmp_path: pathlib.Path) -> None:
    assert "d0" in refusals(asked(tmp_path / "disks", node="${env:NODE}", dirs="log.dirs=d0,d1"))


@pytest.mark.parametrize(
    ("kafka", "word"),
    [("3.8.1", "resrved"), ("3.9.2", "resrved"), ("4.0.1", "resrved"), ("4.1.1", "reserved"), ("4.4.0", "reserved")],
)
@pytest.mark.parametrize("words", [["doctor", "d0", "d1"], ["recover", "d0", "d1"]])
def test_a_reserved_directory_id_in_the_words_of_a_release(
    tmp_path: pathlib.Path, words: list[str], kafka: str, word: str
) -> None:
    """The classes of 3.8.1 to 4.0.1 have `resrved`, those of 4.1.1 to 4.4.0 `reserved`."""
    shutil.copytree(HERE / "broker", tmp_path / "broker")
    meta = tmp_path / "broker/d1/meta.properties"
    lines = meta.read_text().splitlines(keepends=True)
    meta.write_text("".join(line for line in lines if "directory.id" not in line) + f"directory.id={'A' * 22}\n")
    done = run_here([*words, "--kafka", kafka], tmp_path / "broker")
    assert f"Invalid {word} directory ID {'A' * 22} found in" in " ".join(f"{done.out.decode()}{done.told}".split())


@pytest.mark.parametrize(
    ("kafka", "lines", "refused"),
    [
        ("4.3.1", "zookeeper.connect=z:2181", 'Missing required configuration "process.roles"'),
        ("3.9.2", "zookeeper.connect=z:2181", None),
        ("4.3.1", "node.id=1\n" + LISTENERS, 'Missing required configuration "process.roles"'),
        ("4.3.1", "node.id=1\nlog.retention.hours=1", None),  # it may be a part of the settings
        ("4.3.1", "process.roles=", "Configuration 'process.roles' must not be empty."),
        (
            "3.9.2",
            "process.roles=Broker",
            "Invalid value Broker for configuration process.roles: String must be one of",
        ),
        ("3.9.2", "node.id=1\nbroker.id=2", None),  # without roles nobody knows whether the file is whole
        ("4.3.1", ROLES + "broker.id=2", "You must set `node.id` to the same value as `broker.id`."),
        ("4.3.1", ROLES + "broker.id=1", None),
        ("4.3.1", ROLES + "cordoned.log.dirs=d1", None),
        ("4.3.1", ROLES + "cordoned.log.dirs=*", None),
        ("4.3.1", ROLES + "cordoned.log.dirs=*,d1", "must not contain other values"),
        ("4.3.1", ROLES + "cordoned.log.dirs=d1/,d0,/x", "log.dirs or log.dir. Missing entries : d1/, /x"),
        ("4.1.1", ROLES + "cordoned.log.dirs=/x", None),
        (
            "4.3.1",
            ROLES + "log.segment.bytes=100000",
            "100000 for configuration log.segment.bytes: Value must be at least",
        ),
        ("3.9.2", ROLES + "log.segment.bytes=100000", None),
        ("4.3.1", ROLES + "num.recovery.threads.per.data.dir=0", "Value must be at least 1"),
        ("4.3.1", ROLES + "num.io.threads=eight", "Invalid value eight for configuration num.io.threads: Not a number"),
        ("4.3.1", ROLES + "controller.quorum.fetch.timeout.ms=-1", "Value must be at least 0"),
        ("4.0.1", ROLES + "controller.quorum.fetch.timeout.ms=-1", None),
        ("4.3.1", ROLES.replace("controller.listener.names=C\n", ""), "Missing required configuration"),
        ("4.3.1", ROLES.replace("names=C", "names=D"), "No security protocol defined for listener C"),
        ("4.3.1", ROLES + "advertised.listeners=PLAINTEXT://0.0.0.0:9092", "cannot use the nonroutable meta-address"),
        ("4.3.1", ROLES + "inter.broker.listener.name=INTERNAL", "Listener with name INTERNAL defined in"),
        (
            "4.3.1",
            ROLES + "listener.security.protocol.map=C:PLAINTEXT",
            "No security protocol defined for listener PLAIN",
        ),
        ("4.3.1", ROLES + "remote.log.storage.system.enable=true", "null"),  # a NullPointerException
        ("3.9.2", ROLES + f"authorizer.class.name={ACLS}", 'because "connectString" is null'),
        ("4.3.1", ROLES + f"authorizer.class.name={ACLS}", ACLS),
        ("4.3.1", ROLES + "log.retention.hours=x", "x for configuration log.retention.hours: Not a number of type INT"),
        ("4.3.1", ROLES + "log.segment.bytes=1GB", "1GB for configuration log.segment.bytes: Not a number of type INT"),
        ("4.3.1", ROLES + "log.preallocate=yes", "Expected value to be either true or false"),
        ("4.3.1", ROLES + "log.roll.ms=0", "log.roll.ms must be greater than or equal to 1"),
    ],
)
def test_settings_that_end_the_process_before_it_reads_a_log(
    tmp_path: pathlib.Path, kafka: str, lines: str, refused: str | None
) -> None:
    """As brokers said it."""
    disks = pathlib.Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    (disks / "server.properties").write_text(f"log.dirs=d0,d1\n{lines}\n")
    words = ["doctor", "--config-file", "server.properties", "--kafka", kafka, "--format", "json"]
    rows = [json.loads(line) for line in run_here(words, disks).out.splitlines()]
    of_file = [row for row in rows if row.get("what") == "refuses" and row["path"] == str(disks / "d0")]
    told = [row["exception"]["message"] for row in of_file]
    assert len(told) == (refused is not None)
    assert all(str(refused) in message for message in told)


def test_explain_knows_what_the_doctor_foresees_of_settings() -> None:
    """Each message at which a process ends, whatever the values in it."""
    refused = [one for change in TOGETHER for one in find_refusals(on_top(change), REFERENCE_RULES)]
    lines = [f"java.lang.{one.kafka_class}: {one.reason}" for one in refused]
    unknown = [line for line in lines if not any(one.situation.outcome is Outcome.REFUSES for one in recognise(line))]
    assert unknown == ["java.lang.ArithmeticException: / by zero"]


@pytest.mark.parametrize("name", ["data", "kraft-combined-logs"])
def test_a_log_dir_inside_of_a_log_dir_is_the_one_to_use(tmp_path: pathlib.Path, name: str) -> None:
    """As after a change of the image or its path: the outer one was formatted, and no broker starts on it."""
    outer = tmp_path / "disks/d1"
    shutil.copytree(HERE / "broker", tmp_path / "disks")
    shutil.copytree(outer, outer / name)
    rows = [
        json.loads(line) for line in run_here(["doctor", "disks/d0", "disks/d1", "--json"], tmp_path).out.splitlines()
    ]
    options = [row for row in rows if row["type"] == "option" and row["for"] == str(outer / name)]
    assert [f"set log.dirs to {outer / name}" in row["command"] for row in options].count(True) == 1
    done = run_here(["verify", str(outer)], tmp_path)
    assert f"set log.dirs to {outer / name}" in " ".join(done.out.decode().split())


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("replica.selector.class=no.such.Class", False),
        ("metric.reporters=org.apache.kafka.common.metrics.JmxReporter,com.acme.Reporter", False),
        ("authorizer.class.name=com.acme.Authorizer", False),
        ("listener.name.plaintext.ssl.engine.factory.class=com.acme.Engine", False),
        ("replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector", True),
        ("group.consumer.assignors=range,uniform", True),
        ("metric.reporters=", True),
        ("", True),
    ],
)
def test_classes_that_only_the_node_can_find_are_named(tmp_path: pathlib.Path, line: str, is_known: bool) -> None:
    notes = asked(tmp_path / "disks", dirs=f"log.dirs=d0,d1\n{line}")[1]["notes"]
    told = [note for note in notes if "classes that are not Kafka's" in note]
    assert told == [] if is_known else told[0].startswith(line.partition("=")[0])


@pytest.mark.parametrize(("size", "is_refused"), [("0", True), ("-2", True), ("-1", False), ("1", False)])
def test_a_buffer_that_no_socket_can_have_ends_the_start(tmp_path: pathlib.Path, size: str, is_refused: bool) -> None:
    rows = asked(tmp_path / "disks", dirs=f"log.dirs=d0,d1\nsocket.receive.buffer.bytes={size}")
    assert bool(refusals(rows)) == is_refused
    assert ("size cannot be 0 or negative" in json.dumps(rows)) == is_refused
