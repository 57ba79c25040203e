"""Messages of brokers: each is recognised, its outcome is what real brokers did, its commands exist."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from looped import for_each
from running import ROOT, Done, run_here
from startup import HERE, PM

from klogtool.cli.main import COMMANDS
from klogtool.doctor.messages import MOST_CHARACTERS, literals_of, pattern_of, recognise, similar, situation_of
from klogtool.doctor.situation import Outcome, Situation, situations
from klogtool.doctor.where import Where
from klogtool.render.explained import OUTCOMES
from klogtool.verify.findings import KINDS, Kind
from klogtool.verify.stops import refuses

KlogTool = Callable[..., Done]
METADATA = "__cluster_metadata-0"
MESSAGES = [
    tuple(line.replace("\\n", "\n").split("\t"))
    for line in (ROOT / "tests/doctor/messages.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
SHELL = {"findmnt", "ls", "df", "dmesg", "fuser", "readlink", "cat", "find", "sysctl"}  # they only look
every_situation = for_each(situations().values(), lambda situation: situation.name)
every_message = for_each(MESSAGES, lambda case: case[2][:50])
EXAMPLES = {"file": "/d/t-0/00000000000000000019.log", "folder": "/d/t-0", "dir": "/d", "partition": "t-0"}
ORPHAN = "Found an orphaned index file /d0/t-0/00000000000000000019.index, with no corresponding log file."


@every_message
def test_what_a_broker_logs_is_recognised(outcome: str, name: str, message: str) -> None:
    found = recognise(message)
    assert [one.situation.name for one in found][:1] == [name]
    assert found[0].situation.outcome is Outcome(outcome)
    assert found[0].is_whole


@every_message
def test_time_level_and_logger_around_it_do_not_matter(outcome: str, name: str, message: str) -> None:
    first, _, rest = message.partition("\n")
    line = f"[2026-11-21 18:03:19,123] WARN {first} (org.apache.kafka.storage.internals.log.LogManager)\r\n{rest}"
    found = recognise(line)
    assert found[0].situation.name == name
    assert not any("org.apache.kafka" in (one.where.file or "") for one in found)


@every_message
def test_logger_and_thread_behind_it_do_not_matter(outcome: str, name: str, message: str) -> None:
    """As images of Strimzi and Confluent log: they stood in the path of the log dir, and so in the commands."""
    first, _, rest = message.partition("\n")
    for behind in ("(kafka.server.ReplicaManager) [log-handler-/d0]", "(kafka.server.ReplicaManager:68)"):
        found = recognise(f"2023-08-22 00:36:59,911 WARN {first} {behind}\n{rest}")
        assert found[0].situation.name == name
        assert not any(word in str(one.where) for one in found for word in ("kafka.server", "log-handler"))


def test_a_line_that_is_quoted_in_an_issue_has_no_mark_in_its_paths() -> None:
    for line in ("> `Stopping serving replicas in dir /d1`", "`Stopping serving replicas in dir /d1`"):
        assert [one.where.dir for one in recognise(line)] == ["/d1"]


@pytest.mark.slow
@every_message
def test_a_line_that_a_terminal_has_wrapped(outcome: str, name: str, message: str) -> None:
    if "\n" not in message and " " in message:
        middle = message.index(" ", len(message) // 2) if " " in message[len(message) // 2 :] else message.index(" ")
        wrapped = f"{message[:middle]}\n   {message[middle + 1 :]}"
        begins_with_another = any(one.is_whole for one in recognise(message[:middle]))
        assert begins_with_another or name in [one.situation.name for one in recognise(wrapped)]


@pytest.mark.slow
@every_situation
def test_a_situation_is_recognised_by_each_of_its_wordings(situation: Situation) -> None:
    for wording in situation.wordings:
        said = re.sub(r"\{(\w*)\}", lambda name: EXAMPLES.get(name[1], "7"), wording.text)
        assert pattern_of(wording.text).search(said)
        with_its_clue = f"{said}\n{situation.clue or ''}"
        assert situation.name in [one.situation.name for one in recognise(with_its_clue)]


@every_situation
def test_a_situation_is_told_in_full(situation: Situation) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", situation.name)
    assert situation.name not in KINDS
    assert situation.meaning.endswith((".", ".)"))
    assert situation.look_first.endswith((".", ".)", "?"))
    assert situation.cures or situation.look_first.startswith("Nothing") or situation.outcome is Outcome.OK


@every_situation
def test_causes_are_several_and_each_has_its_sign(situation: Situation) -> None:
    assert len(situation.causes) != 1
    assert len({cause.what for cause in situation.causes}) == len(situation.causes)
    assert all(cause.sign.endswith((".", ".)")) and not cause.what.endswith(".") for cause in situation.causes)


@pytest.mark.parametrize(
    "text",
    [
        "ERROR Encountered fatal fault: Error loading metadata log record from offset 39",
        "Record size 1684827238 exceeds the largest allowable message size (1048588).",
        "Received exception when fetching the next record from t-0. If needed, please seek past the record to continue",
        "Shutting down because we were unable to register with the controller quorum.",
        "Unexpected error code 87 while fetching at offset 39 from topic-partition t-0",
        "Truncation detected for partition t-0 at offset FetchPosition{offset=45}, but no reset policy is set",
        "Fetch position FetchPosition{offset=0} is out of range for partition t-0, resetting offset",
        "Error for partition t-0 at offset 39",
        "Error processing fetch with max size 1048576 from consumer on partition t-0: PartitionData(fetchOffset=39)",
        "Topic ID in the fetch session did not match the topic ID in the log.",
        "Offset mismatch for the future replica t-0: fetched offset = 39, log end offset = 45.",
    ],
)
def test_a_line_with_several_causes_picks_none(text: str, klogtool: KlogTool) -> None:
    """All causes are told, each with what tells it from the others."""
    told = " ".join(klogtool("explain", text).out.decode().split())
    causes = recognise(text)[0].situation.causes
    assert len(causes) > 1
    assert f"There are {len(causes)} possible causes" in told
    assert all(cause.what in told and cause.sign in told for cause in causes)


def test_an_error_without_its_sentence_is_known_by_code_and_exception() -> None:
    for situation in situations().values():
        for name in situation.names:
            line = f"ERROR org.apache.kafka.common.errors.{name}\n\tat kafka.server.KafkaApis.handle(KafkaApis.scala:7)"
            assert [(one.situation.name, one.said) for one in recognise(line)] == [(situation.name, name)]
            assert situation.name in [one.situation.name for one in recognise(f"{name}: {situation.wordings[0].text}")]
    assert not recognise("NoSuchException, ALMOST_AN_ERROR")
    assert not recognise("org.apache.kafka.common.errors.KafkaStorageException: The memory mapped buffer is closed")


def test_every_situation_of_the_tables_is_there_and_has_a_name_of_its_own() -> None:
    tables = (ROOT / "klogtool/doctor/situations").glob("*.json")
    names = [entry["name"] for table in tables for entry in json.loads(table.read_text(encoding="utf-8"))]
    assert sorted(names) == sorted(situations())
    assert len(names) > 150
    assert OUTCOMES.keys() == set(Outcome)


@every_situation
def test_the_commands_of_a_situation_exist(situation: Situation) -> None:
    where = Where("/d/t-0/00000000000000000019.log", "/d/t-0", "/d", "t-0", 19, "/e/t-0", 45)
    for cure in situation.cures:
        for words in (shlex.split(where.filled(cure)), shlex.split(Where().filled(cure))):
            assert words[0] == "klogtool" or words[0] in SHELL
            if words[0] == "klogtool":
                parses(words[1], words[2:])


DISKS = re.compile(r"(?<![\w./-])/(?=(?:d[01]?|e)\b)")
TYPED = {"LOGDIR": "d0", "PARTITION": "d1/t-0", "FILE": f"d1/t-0/{11:020d}.log", "OTHER": "d/t-0", "OFFSET": "12"}
TYPED |= {"DIR": "out", "COPY": "d/t-0"}


@pytest.mark.slow
@pytest.mark.some(12)
@pytest.mark.parametrize("message", [message for _, _, message in MESSAGES])
def test_the_commands_of_a_message_are_understood(message: str, tmp_path: Path) -> None:
    """Each is run on disks that have what the message is about; no command asks for what is not there, or is wrong."""
    disks = Path(shutil.copytree(HERE / "broker", tmp_path / "disks"))
    shutil.copytree(disks / "d1", disks / "d")
    (disks / "server.properties").write_text(f"log.dirs={disks}/d0,{disks}/d1\nnode.id=1\n")
    for one in recognise(on_disks(message, disks)):
        put_there(one.where, disks)
        for cure in one.cures:
            words = shlex.split(re.sub(r"(?<![/\w])([A-Z]{3,9})(?![\w])", lambda word: TYPED[word[1]], cure))
            if words[0] == "klogtool" and "__remote_log_metadata-0" not in cure:
                done = run_here(words[1:], disks)
                assert done.status in (0, 1, 3, 4), (cure, done.err)


def on_disks(message: str, disks: Path) -> str:
    """The message, about disks that are here: a log dir that only the person's machine has is one of them, too."""
    message = DISKS.sub(f"{disks}/", message)
    for log_dir in {one.where.dir for one in recognise(message) if one.where.dir}:
        if not Path(log_dir).is_relative_to(disks):
            message = message.replace(log_dir, f"{disks}/d1")
    return message


def put_there(where: Where, disks: Path) -> None:
    """A folder or a file that a message names, as a copy of another."""
    metadata = disks / "d0" / METADATA
    for path in map(Path, filter(None, (where.folder, where.dir and f"{where.dir}/{METADATA}"))):
        if path.is_relative_to(disks) and not path.exists():
            shutil.copytree(metadata if path.name == METADATA else disks / "d1/t-0", path)
    if where.file and (path := Path(where.file)).is_relative_to(disks) and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(next((disks / "d1/t-0").glob(f"*{path.suffix or '.log'}"), disks / "d1/t-0" / PM), path)
    if where.other and (path := Path(where.other)).is_relative_to(disks) and not path.exists():
        shutil.copytree(disks / "d1/t-0", path)


@pytest.mark.parametrize(
    "text",
    [
        "Shutdown broker because all log dirs in /d 0, /d1 have failed",
        "Loading logs from log dirs ArraySeq(/d 0, /d1) (kafka.log.LogManager)",
        "Loading logs from log dirs [/d 0, /d1]",
        "KafkaStorageException: No log directories available. Tried /d 0, /d1",
    ],
)
def test_a_message_that_names_several_log_dirs(text: str) -> None:
    (found,) = recognise(text)
    assert found.where.dirs == ("/d 0", "/d1")
    assert "klogtool doctor '/d 0' /d1" in found.cures


def parses(name: str, words: list[str]) -> None:
    command: click.Command = importlib.import_module(COMMANDS[name][0]).command
    context = click.Context(command)
    given, left, _ = command.make_parser(context).parse_args(words)
    assert not left
    assert any(given[param.name or ""] for param in command.params if isinstance(param, click.Argument))


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("Found a corrupted index file", "offset-index-corrupt"),
        ("treat it as a stray log", "stray-without-topic-id"),
        ("could not find offset index file corresponding to log file", "offset-index-missing"),
        ("FOUND AN ORPHANED INDEX FILE", "orphaned-index"),
        ("…since clean shutdown file was found", "start-after-clean-shutdown"),
    ],
)
def test_a_part_of_a_message(part: str, name: str) -> None:
    found = recognise(part)
    assert found[0].situation.name == name
    assert not found[0].is_whole


def test_paths_are_those_of_the_message() -> None:
    (found,) = recognise(f"[LogLoader partition=t-0, dir=/d0] {ORPHAN}")
    assert found.where == Where("/d0/t-0/00000000000000000019.index", "/d0/t-0", "/d0", "t-0", 19)
    assert found.cures == ("klogtool verify /d0/t-0", "klogtool salvage /d0/t-0 --output DIR")
    (cut,) = recognise("[LogLoader partition=t-0, dir=/d 1] Corruption found in segment 39, truncating to offset 45")
    assert (cut.where.folder, cut.where.base, cut.where.offset) == ("/d 1/t-0", 39, 45)
    assert cut.cures[0] == "klogtool recover '/d 1/t-0'"


@every_situation
def test_a_path_of_a_wording_is_the_path_whatever_is_around_it(situation: Situation) -> None:
    """Releases before 4.0 put some paths in parentheses, people quote them, and exceptions stand before them."""
    paths = {"file": "/d 0/t.x-3/00000000000000000042.log", "folder": "/d 0/t.x-3", "dir": "/d 0", "other": "/d1/t.x-3"}
    forms = ("{}", "java.io.IOException: {}", "[2026-11-21 18:03:19,123] ERROR {} (kafka.log.LogManager)")
    for wording in situation.wordings:
        names = sorted(paths.keys() & set(re.findall(r"\{(\w+)\}", wording.text)))
        for form, around in itertools.product(forms, ("{}", "({})", "'{}'", "[{}]", "`{}`") if names else ()):
            values = {name: around.format(path) for name, path in paths.items()}
            text = re.sub(r"\{(\w*)\}", lambda name, by=values: by.get(name[1], "7"), wording.text)
            where = next(one.where for one in recognise(form.format(text)) if one.situation.name == situation.name)
            assert {name: getattr(where, name) for name in names} == {name: paths[name] for name in names}


def test_a_file_that_could_not_be_renamed_is_two_paths() -> None:
    (found,) = recognise("java.nio.file.FileSystemException: /d0/a-0 -> /d0/a-0.0f-delete: Read-only file system")
    assert (found.where.file, found.where.other) == ("/d0/a-0", "/d0/a-0.0f-delete")


def test_an_exception_that_a_collector_has_joined_to_the_line_is_no_part_of_a_path() -> None:
    logged = "Error while appending records to t-0 in dir /data/k (kafka.server.LogDirFailureChannel)"
    for joint in ("\n", " "):
        (match, *_) = recognise(f"{logged}{joint}java.io.IOException: No space left on device")
        assert match.where.folder == "/data/k/t-0"


def test_a_path_in_a_message_cannot_run_in_a_shell() -> None:
    (found, *_) = recognise("Error while loading log dir /d;$(reboot)`x`")
    assert found.cures[0] == "klogtool doctor '/d;$(reboot)`x`'"


def test_what_is_unknown_is_a_word_in_capitals() -> None:
    (found,) = recognise("Recovering unflushed segment 39. 0 recovered for t-0.")
    assert found.cures[0] == "klogtool recover PARTITION"


def test_a_stack_trace_shows_the_most_specific_first() -> None:
    text = (
        "ERROR There was an error in one of the threads during logs loading: java.lang.NumberFormatException: "
        'For input string: "foo"\njava.lang.NumberFormatException: For input string: "foo"\n'
        "\tat java.base/java.lang.Long.parseLong(Long.java:711)\n"
        "\tat org.apache.kafka.storage.internals.log.LogFileUtils.offsetFromFileName(LogFileUtils.java:80)\n"
    )
    names = [one.situation.name for one in recognise(text)]
    assert names == ["file-name-no-offset", "log-loading-failed"]


def test_without_a_clue_all_that_fit_are_shown() -> None:
    names = [one.situation.name for one in recognise('java.lang.NumberFormatException: For input string: "x"')]
    assert sorted(names) == [
        "checkpoint-no-number",
        "cleaner-checkpoint-no-number",
        "file-name-no-offset",
        "leader-epoch-no-number",
    ]
    assert names[-1] == "checkpoint-no-number"  # the worst comes first


def test_a_name_with_dots_is_whole() -> None:
    (found,) = recognise("Recovering unflushed segment 39. 0 recovered for my.topic-0.")
    assert found.where.partition == "my.topic-0"
    (small,) = recognise("Found record size 0 smaller than minimum record overhead (14) in file /d.1/a.b-0/0.log.")
    assert small.where.file == "/d.1/a.b-0/0.log"


def test_what_several_lines_say_is_put_together() -> None:
    text = (
        "WARN Found invalid messages in log segment /d/t-0/00000000000000000039.log at byte offset 748.\n"
        "WARN [LogLoader partition=t-0, dir=/d] Corruption found in segment 39, truncating to offset 45"
    )
    (found,) = recognise(text)
    assert found.where == Where("/d/t-0/00000000000000000039.log", "/d/t-0", "/d", "t-0", 39, None, 45)


def test_the_same_message_many_times_is_one_situation() -> None:
    (found,) = recognise(f"{ORPHAN}\n" * 7)
    assert found.times == 7


def test_colours_and_curved_quotes_of_what_people_paste() -> None:
    for text in (f"\x1b[33mWARN\x1b[0m {ORPHAN}", f"\u201c{ORPHAN}\u201d", json.dumps({"message": ORPHAN})):
        assert [one.situation.name for one in recognise(text)] == ["orphaned-index"]
    (found,) = recognise('{"message":"Error while reading checkpoint file /d/x","thread":"main"}')
    assert found.where.file == "/d/x"


def test_an_exception_of_verify_has_its_situation() -> None:
    stop = refuses(
        "KafkaException",
        "Found directory /d/foo, 'foo' is not in the form of topic-partition or "
        "topic-partition.uniqueId-delete (if marked for deletion).",
    )
    found = situation_of(stop)
    assert found is not None
    assert found.name == "foreign-folder-in-log-dir"
    assert situation_of(refuses("KafkaException", "something else")) is None


@pytest.mark.parametrize("situation", [each for each in situations().values() if each.clue], ids=lambda one: one.name)
def test_an_exception_without_its_stack_trace_is_told_by_the_finding(situation: Situation) -> None:
    """verify knows no stack trace, so a clue is never in what it says: without a finding, nobody guesses."""
    said = situation.wordings[0].text.replace("{}", "x")
    kafka_class, _, message = said.rpartition(": ") if "Exception: " not in said else said.partition(": ")
    stop = refuses(kafka_class or "RuntimeException", message)
    guess = situation_of(stop)
    assert guess is None or guess.clue is None
    assert all(situation_of(stop, kind) == situation for kind in situation.findings if is_sure(kind))


def is_sure(kind: Kind) -> bool:
    """Return whether one situation with a clue leads to a finding."""
    return sum(each.clue is not None and kind in each.findings for each in situations().values()) == 1


@pytest.mark.parametrize("name", [path.stem for path in sorted((ROOT / "tests/doctor/starts").glob("*.log"))])
def test_the_log_of_a_start_that_goes_wrong(name: str) -> None:
    """tests/doctor/starts has warnings and errors of a real broker of 4.3.1, started on such a disk."""
    found = recognise((ROOT / f"tests/doctor/starts/{name}.log").read_text(encoding="utf-8"))
    assert found[0].situation.name == name
    vague = [one.situation.is_general for one in found]
    assert vague == sorted(vague)
    assert not any(one.situation.clue and one.situation.name != name for one in found)


@pytest.mark.slow
def test_the_log_of_a_normal_start_and_stop_alarms_nobody() -> None:
    """tests/doctor/normal.log: each kind of line of a new broker of 4.3.1 that is started, used and stopped."""
    text = (ROOT / "tests/doctor/normal.log").read_text(encoding="utf-8")
    outcomes = {one.situation.name: one.situation.outcome for one in recognise(text)}
    assert outcomes.pop("metadata-empty") is Outcome.LOSES  # a new cluster
    assert set(outcomes.values()) == {Outcome.OK}
    assert all(one.is_whole for line in text.splitlines() for one in recognise(line))


@pytest.mark.parametrize(
    "text", ["", " ", "\n" * 1000, "hello world", "klogtool", "is less than", "\x00\x1b[31m\u202e", "a" * 10**6]
)
def test_what_nobody_knows_is_not_guessed(text: str) -> None:
    assert recognise(text) == []


def repeated(situation: Situation) -> str:
    """The beginning of each message again and again, without its end."""
    return "".join(literals_of(wording.text)[0] * 40 for wording in situation.wordings)


@pytest.mark.slow
def test_hostile_text_takes_no_long_time() -> None:
    wordings = [wording for situation in situations().values() for wording in situation.wordings]
    parts = [literal for wording in wordings for literal in literals_of(wording.text)]
    everything = "\n".join(parts)  # so that no pattern is skipped
    begun = time.monotonic()
    for text in (
        everything + "".join(map(repeated, situations().values())),
        everything + "Duplicate log directories for " * 20_000,
        everything + "[LogLoader partition=" * 20_000,
        everything + "/d/t-0" * 100_000,
        everything + "\x1b[1" * 100_000,
    ):
        recognise((text * 20)[: MOST_CHARACTERS * 20])
        similar(text)
    assert time.monotonic() - begun < 60


def test_a_text_of_the_command_line(klogtool: KlogTool) -> None:
    done = klogtool("explain", ORPHAN, "batch-crc", "--format", "json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row.get("situation", row.get("id")) for row in rows[1:]] == ["orphaned-index", "batch-crc"]
    assert rows[1]["outcome"] == "loses"
    assert rows[1]["file"] == "/d0/t-0/00000000000000000019.index"
    assert rows[1]["cures"] == ["klogtool verify /d0/t-0", "klogtool salvage /d0/t-0 --output DIR"]


def test_without_quotes_the_words_are_one_message(klogtool: KlogTool) -> None:
    done = klogtool("explain", "treat", "it", "as", "a", "stray", "log")
    assert done.status == 0
    assert done.out.startswith(b"stray-without-topic-id: the broker runs, and LOSES")


def test_what_is_unknown_is_wrong_usage(klogtool: KlogTool) -> None:
    done = klogtool("explain", "index file is \x1b[31m corrupted somehow")
    assert (done.status, done.out) == (2, b"")
    assert "no message that klogtool knows is in" in done.told
    assert "Similar, but not the same: klogtool explain" in done.told
    assert "\x1b" not in done.told
    assert klogtool("explain", "").status == 2
    assert "partition-uncleanable" in klogtool("explain", "uncleanable").told


def test_control_characters_of_a_message_are_escaped(klogtool: KlogTool) -> None:
    done = klogtool("explain", "Error while loading log dir /d\x1b]0;x\x07\u202e")
    assert done.status == 0
    assert b"\x1b" not in done.out
    assert "\u202e" not in done.out.decode()


def test_every_situation_is_listed(klogtool: KlogTool) -> None:
    text = klogtool("explain", "--messages").out.decode()
    assert re.findall(r"^([a-z0-9-]+)  \(", text, re.MULTILINE) == list(situations())
    rows = [json.loads(line) for line in klogtool("explain", "--messages", "--format", "json").out.splitlines()]
    assert [row["situation"] for row in rows[1:]] == list(situations())
    assert klogtool("explain", "snapshot-move-noise").out.startswith(b"snapshot-move-noise: the broker runs")


def test_the_page_has_the_fields_of_a_situation(klogtool: KlogTool) -> None:
    page = (ROOT / "docs/explain.md").read_text(encoding="utf-8")
    rows = klogtool(
        "explain",
        ORPHAN,
        "Malformed line in partition metadata file [/d/t-0/partition.metadata]: hello",
        "--format",
        "json",
    ).out.splitlines()
    fields = {name for row in rows[1:] for name in json.loads(row)}
    assert fields == set(re.findall(r'"([a-z_]+)"', page.partition("A situation is")[2].partition("\n\n")[0])) - {
        "explanation"
    }
