"""The kinds of files that klogtool reads back: how a whole one comes to be, and what is asked about a hostile one."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import yaml
from damage import overwrite
from damaged import FIXTURES, ROOT
from read_back_values import Form

from klogtool.disk.manifest import Progress

from running import run_here  # isort: skip

Path = pathlib.Path
NOW = ("--now", "1700000400000")


@dataclass(frozen=True)
class Asked:
    """files: the hostile ones. form: how values make them; None: bytes only. commands: what may be asked."""

    files: list[Path]
    form: Form | None
    commands: list[list[str]]

    def form_of(self, path: Path) -> Form:
        """A journal has a file of another form beside its plans."""
        assert self.form is not None
        return Form.JSON if path.name == "manifest.json" else self.form


@dataclass(frozen=True)
class Kind:
    """writes: "" if it only reads; "undo" if `apply` is to be taken back; "journal" if what it needs is hostile."""

    name: str
    lay: Callable[[Path], Asked]
    writes: str = ""


def ran(box: Path, *words: str | os.PathLike[str], statuses: tuple[int, ...] = (0, 1)) -> bytes:
    done = run_here(list(map(os.fspath, words)), box)
    assert done.status in statuses, (words, done)
    return done.out


def log_dir(box: Path, fixture: str, name: str) -> Path:
    """One partition of a fixture, with the files of its log dir."""
    source, logs = FIXTURES / fixture / "logdir", box / "inside/logs"
    shutil.copytree(source / name, logs / name)
    for file in source.iterdir():
        if file.is_file():
            shutil.copy2(file, logs)
    return logs


def with_links(box: Path) -> None:
    """Links that lead out of the log dir."""
    (box / "inside/logs/link").symlink_to(box / "outside")
    (box / "inside/logs/t-0/link").symlink_to(box / "outside")


# ---------------------------------------------------------------- plans and journals

COMMANDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "recover": ("killed-mid-append", "flip-bit-0", NOW),
    "rebuild-index": ("transactions", "t-0", ("--only", "index")),
    "salvage": ("killed-mid-append", "flip-bit-0", NOW),
    "truncate": ("transactions", "t-0", ("--to", "5", *NOW)),
    "roll": ("transactions", "t-0", ("--force", *NOW)),
    "retain": ("transactions", "t-0", ("--config", "retention.bytes=1", "--purge", *NOW)),
    "delete-records": ("transactions", "t-0", ("--before", "9", *NOW)),
    "compact": ("transactions", "t-0", ("--config", "cleanup.policy=compact", "--force", *NOW)),
    "drop-producer": ("transactions", "t-0", ("--producer-id", "0", *NOW)),
    "transplant": ("leader-epochs", "t-0", ("--topic-id", "AAAAAAAAAAAAAAAAAAAAAw", *NOW)),
}


def plan_of(command: str) -> Callable[[Path], Asked]:
    """A plan that was saved."""

    def lay(box: Path) -> Asked:
        fixture, name, options = COMMANDS[command]
        logs = log_dir(box, fixture, name)
        plan = box / "given/plan"
        ran(box, command, logs / name, *options, "--plan-out", plan)
        return Asked([plan], Form.PLAN, [["apply", str(plan)], ["apply", str(plan), "--json"]])

    return lay


def plan_of_doctor(box: Path) -> Asked:
    """A plan that renames a folder, too."""
    logs = log_dir(box, "transactions", "t-0")
    shutil.copytree(logs / "t-0", logs / "foo")
    plan = box / "given/plan"
    ran(box, "doctor", logs, "--fix", "--plan-out", plan, *NOW)
    return Asked([plan], Form.PLAN, [["apply", str(plan)]])


def journal_of(command: str, progress: Progress = Progress.DONE) -> Callable[[Path], Asked]:
    """What a run left for undo, and a link in its log dir. progress: how far the run came, by its manifest."""

    def lay(box: Path) -> Asked:
        fixture, name, options = COMMANDS[command]
        logs = log_dir(box, fixture, name)
        ran(box, command, logs / name, *options, "--apply")
        (logs / "link").symlink_to(box / "outside")
        (logs / name / "link").symlink_to(box / "outside")
        asked = asked_of_journal(logs)
        text = asked.files[1].read_text()
        asked.files[1].write_text(text.replace(Progress.DONE.name, progress.name, 1))
        return asked

    return lay


def journal_of_doctor(box: Path) -> Asked:
    plan = plan_of_doctor(box).files[0]
    ran(box, "apply", plan)
    plan.unlink()
    (box / "inside/logs/link").symlink_to(box / "outside")
    return asked_of_journal(box / "inside/logs")


def asked_of_journal(logs: Path) -> Asked:
    (entry,) = (path for path in logs.with_name("logs.klogtool").iterdir() if path.is_dir())
    files = [entry / "plan.jsonl", entry / "manifest.json"]
    ways = ("undo",), ("undo",), ("undo", "--list"), ("undo", "--discard", "--all"), ("apply", "--resume")
    return Asked(files, Form.PLAN, [[*way, str(logs)] for way in ways])


# ---------------------------------------------------------------- what only is read


def spec(fixture: str, name: str) -> Callable[[Path], Asked]:
    """A description for `build`; YAML takes JSON."""

    def lay(box: Path) -> Asked:
        text = ran(box, "dump-log", FIXTURES / fixture / "logdir" / name, "--format", "spec")
        file = box / "given/spec"
        file.write_text(json.dumps(yaml.safe_load(text)))
        return Asked([file], Form.JSON, [["build", str(file), "--output", str(box / "out")]])

    return lay


def spec_in_words(box: Path) -> Asked:
    """The one of the tests, with all that a description can say."""
    file = box / "given/spec"
    shutil.copyfile(ROOT / "tests/kafka/built.yaml", file)
    return Asked([file], None, [["build", str(file), "--output", str(box / "out")]])


def names_of_image(box: Path) -> Asked:
    logs = log_dir(box, "transactions", "t-0")
    names = box / "given/names"
    ran(box, "image", logs, "--output", box / "out", "--names", names)
    shutil.rmtree(box / "out")
    return Asked([names], Form.JSON, [["image", str(logs), "--output", str(box / "out"), "--names", str(names)]])


def pages_of_fleet(box: Path) -> Asked:
    """Files of three brokers."""
    files = []
    for path in sorted((ROOT / "docs/examples/restored").glob("*.klog")):
        files.append(Path(shutil.copyfile(path, box / "given" / path.name)))
    names = list(map(str, files))
    out = box / "out"
    return Asked(
        files,
        Form.FLEET,
        [
            ["fleet", "plan", *names],
            ["fleet", "plan", *names, "--json"],
            ["fleet", "check", "--restored", *names],
            ["fleet", "check", "--restored", *names, "--json"],
            ["fleet", "metadata", *names, "--output", str(out), *NOW],
        ],
    )


def plan_of_fleet(box: Path) -> Asked:
    logs = log_dir(box, "leader-epochs", "t-0")
    page, plan = box / "given/page", box / "given/plan"
    page.write_bytes(ran(box, "fleet", "collect", logs))
    ran(box, "fleet", "plan", page, "--plan-out", plan, "-q")
    ways = [["fleet", "apply", str(plan), str(logs)], ["fleet", "check", str(page), str(plan)]]
    return Asked([plan], Form.FLEET, [*ways, [*ways[0], "--apply"]])


def schemas(box: Path) -> Asked:
    """Of Avro and of protobuf."""
    values = ROOT / "docs/examples/values"
    shutil.copytree(values / "schemas", box / "given/schemas")
    avro = sorted((box / "given/schemas").glob("*.avsc"))
    return Asked(avro, Form.JSON, list(dumps(values, box / "given/schemas", "avro")))


def descriptors(box: Path) -> Asked:
    values = ROOT / "docs/examples/values"
    shutil.copytree(values / "schemas", box / "given/schemas")
    return Asked([box / "given/schemas/21.desc"], None, list(dumps(values, box / "given/schemas", "protobuf")))


def dumps(values: Path, folder: Path, form: str) -> Iterator[list[str]]:
    for partition in ("orders-0", "profiles-0", "visits-0"):
        words = ["dump-log", str(values / "logdir" / partition), "--value-format", form, "--schemas", str(folder)]
        yield from ([*words, "--print-data-log"], [*words, "--json"])


def page(box: Path) -> Asked:
    """An HTML page of `doctor`."""
    logs = log_dir(box, "transactions", "t-0")
    file = box / "given/page.html"
    ran(box, "doctor", logs, "--html", file, *NOW)
    return Asked([file], Form.PAGE, [["doctor", "--from", str(file)], ["doctor", "--from", str(file), "--json"]])


def baseline(box: Path) -> Asked:
    logs = log_dir(box, "killed-mid-append", "flip-bit-0")
    file = box / "given/baseline"
    ran(box, "verify", logs, "--write-baseline", file, *NOW)
    return Asked([file], Form.LINES, [["verify", str(logs), "--baseline", str(file), *NOW]])


def state_of_scrub(box: Path) -> Asked:
    logs = log_dir(box, "transactions", "t-0")
    (log,) = sorted((logs / "t-0").glob("*.log"))[:1]
    overwrite(log, 70, b"\xff")
    file = box / "given/state"
    words = ["scrub", str(logs), "--state", str(file), "--every", "1s", "--jobs", "1"]
    ran(box, *words)
    return Asked([file], None, [words, [*words, "--json"]])


def manifest_of_export(box: Path) -> Asked:
    """What says which offsets are there."""
    logs = log_dir(box, "transactions", "t-0")
    ran(box, "export", logs, "--output", box / "inside/parquet")
    files = [box / "inside/parquet/_klogtool_manifest.json"]
    return Asked(files, Form.JSON, [["export", str(logs), "--output", str(box / "inside/parquet")]])


def records(box: Path) -> Asked:
    """Lines for `append`."""
    logs = log_dir(box, "transactions", "t-0")
    file = box / "given/records"
    file.write_bytes(ran(box, "dump-log", logs / f"t-0/{0:020d}.log", "--json"))
    return Asked([file], Form.LINES, [["append", str(logs / "t-0"), "--records", str(file), *NOW]])


def lines_of_hash(box: Path) -> Asked:
    """What `hash` said of another copy."""
    logs = log_dir(box, "transactions", "t-0")
    (log,) = sorted((logs / "t-0").glob("*.log"))[:1]
    file = box / "given/lines"
    file.write_bytes(ran(box, "hash", logs, "--json"))
    overwrite(log, 70, b"\xff")
    return Asked([file], Form.LINES, [["scrub", str(logs), "--state", str(box / "out"), "--replica", str(file)]])


def settings_of_controllers(box: Path) -> Asked:
    logs = log_dir(box, "metadata", "__cluster_metadata-0")
    file = box / "given/server.properties"
    file.write_text(
        f"process.roles=controller\nnode.id=1\nlog.dirs={logs}\ncontroller.quorum.voters=1@a:1,2@b:2\n"
        "controller.listener.names=C\nlisteners=C://a:1\n"
    )
    return Asked([file], None, [["quorum", str(logs), "--config-file", str(file)]])


def settings(box: Path) -> Asked:
    """A properties file with sections."""
    logs = log_dir(box, "transactions", "t-0")
    file = box / "given/server.properties"
    file.write_text(
        f"log.dirs={logs}\nsegment.bytes=1500\nretention.ms=5\n[t]\ncleanup.policy=compact\n[x*]\nflush.ms=1\n"
    )
    words = ["--config-file", str(file), *NOW]
    return Asked([file], None, [["recover", str(logs), *words], ["doctor", *words], ["retain", str(logs), *words]])


KINDS = (
    *(Kind(f"plan of {command}", plan_of(command), "undo") for command in COMMANDS),
    Kind("plan of doctor", plan_of_doctor, "undo"),
    *(Kind(f"journal of {command}", journal_of(command), "journal") for command in COMMANDS if command != "salvage"),
    Kind("journal of doctor", journal_of_doctor, "journal"),
    Kind("journal of a run cut short", journal_of("retain", Progress.STAGED), "journal"),
    Kind("journal of an undo cut short", journal_of("truncate", Progress.UNDOING), "journal"),
    Kind("spec", spec("transactions", "t-0")),
    Kind("spec of groups", spec("groups", "__consumer_offsets-0")),
    Kind("spec in words", spec_in_words),
    Kind("names of an image", names_of_image),
    Kind("pages of fleet", pages_of_fleet),
    Kind("plan of fleet", plan_of_fleet, "journal"),
    Kind("schemas", schemas),
    Kind("descriptors", descriptors),
    Kind("page", page),
    Kind("baseline", baseline),
    Kind("state of scrub", state_of_scrub),
    Kind("manifest of export", manifest_of_export, "journal"),
    Kind("records", records),
    Kind("lines of hash", lines_of_hash),
    Kind("settings", settings),
    Kind("settings of controllers", settings_of_controllers),
)
