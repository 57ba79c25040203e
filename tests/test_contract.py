"""docs/contract.md says what klogtool does: commands, exit statuses, ids of findings, fields of answers."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import click
import pytest
from running import ROOT, run_here

from klogtool.cli import status
from klogtool.cli.main import COMMANDS, cli
from klogtool.verify.findings import Kind

PAGE = (ROOT / "docs/contract.md").read_text(encoding="utf-8")
DISKS = ("fixtures/two-disks/logdir/d1", "fixtures/two-disks/logdir/d2")  # of one broker
DAMAGED = "fixtures/killed-mid-append/logdir/flip-bit-0"
SOUND = "fixtures/every-codec/logdir/append-4"
RECORD = {"type": "record", "key": None, "value": {"utf8": "v"}, "headers": [], "timestamp": 1}
N1 = "docs/examples/quorum/n1"
# A command line for each row of the table of answers; {records} is a file, {output} a new folder.
QUESTIONS = {
    "recover": f"recover {DAMAGED}",
    "rebuild-index": f"rebuild-index {SOUND}",
    "salvage": f"salvage {DAMAGED}",
    "transplant": f"transplant {SOUND} --check",
    "transplant --cluster-id": f"transplant {DISKS[0]} --cluster-id MkU3OEVBNTcwNTJENDM2Qg",
    "transplant --node-ids": f"transplant {N1} --cluster-id MkU3OEVBNTcwNTJENDM2Qg --node-ids 1=11",
    "lookup --offset": f"lookup {DAMAGED} --offset 45 --offset 47",
    "lookup --timestamp": f"lookup {DAMAGED} --timestamp latest",
    "lookup --leader-epoch": f"lookup {DAMAGED} --leader-epoch 0",
    "read": f"read {DAMAGED} --offset 45 --max-bytes 100 --isolation read_committed",
    "append": f"append {SOUND} --records {{records}} --now 1700000000000",
    "truncate": f"truncate {DAMAGED} --to 46",
    "roll": f"roll {DAMAGED} --incoming-bytes 9999999999",
    "retain": f"retain {DAMAGED}",
    "delete-records": f"delete-records {DAMAGED} --before 46",
    "compact": f"compact {SOUND} --config cleanup.policy=compact",
    "free": "free fixtures/retention/logdir --now 2026-11-22",
    "txns": f"txns {DAMAGED}",
    "offsets": "offsets fixtures/transactions/logdir",
    "diff": f"diff {DAMAGED} {SOUND}",
    "hash": f"hash {SOUND}",
    "quorum": "quorum docs/examples/quorum/n1 docs/examples/quorum/n2",
    "quorum --standalone": f"quorum {N1} --standalone --destroyed 2 --destroyed 3 --accept-loss",
    "fleet metadata": "fleet metadata {klog}",
    "txns --audit": "txns --audit fixtures/killed-mid-append/logdir",
    "drop-producer": f"drop-producer {SOUND} --producer-id 0",
    "build": "build docs/orders.yaml --output {output}",
    "image": f"image {SOUND} --output {{output}}",
}
TYPES = ("answer", "plan", "transaction", "committed", "audit", "image")
NOT_HERE = {
    "error",
    "transaction",
    "from",
    "producer_id",
    "erased",
}  # of a call that is refused; the type of other lines; of --replica; of `pending`; of a copy with gaps


def table(heading: str) -> Iterator[list[str]]:
    """The rows of the table with this heading, without the heading."""
    found = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    assert found is not None, heading
    return ([cell.strip() for cell in row.strip("|").split(" | ")] for row in found[1].splitlines())


def test_every_command_is_there() -> None:
    named = {word.split()[0] for _, cell in table("group") for word in re.findall("`([^`]+)`", cell)}
    assert named == COMMANDS.keys() - {"help"}


def test_every_exit_status_is_there() -> None:
    numbers = (status.DONE, status.FOUND, status.USAGE, status.REFUSED, status.COULD_NOT)
    assert [int(row[0]) for row in table("status")] == [*numbers, status.INTERRUPTED, status.READER_GONE]


def test_every_finding_is_there_with_its_severity() -> None:
    named = {name: severity for severity, cell in table("severity") for name in re.findall("`([^`]+)`", cell)}
    assert named == {kind.value: kind.row.severity.value for kind in Kind}


def names_in(answer: Any) -> Iterator[str]:
    """Names of fields, those of objects inside as well."""
    for value in answer.values() if isinstance(answer, dict) else answer if isinstance(answer, list) else ():
        yield from names_in(value)
    yield from answer if isinstance(answer, dict) else ()


def test_every_answer_has_its_row() -> None:
    assert [row[0].strip("`") for row in table("command")] == list(QUESTIONS)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_has_the_fields_of_its_row(question: str, tmp_path: pathlib.Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text(json.dumps(RECORD) + "\n")
    (told,) = (cell for name, cell in table("command") if name == f"`{question}`")
    klog = tmp_path / "broker.klog"
    klog.write_bytes(run_here(["fleet", "collect", *DISKS], ROOT).out)
    places = {"records": records, "output": tmp_path / "image", "klog": klog}
    asked = [*QUESTIONS[question].format(**places).split(), "--format", "json"]
    rows = [json.loads(line) for line in run_here(asked, ROOT).out.splitlines()]
    answers = [row["answer"] if row["type"] == "plan" else row for row in rows if row["type"] in TYPES]
    fields = set(re.findall(r"`([a-z0-9_]+)`", told))
    assert fields - NOT_HERE <= set(names_in(answers))


def with_option(option: str, group: click.Group = cli, before: str = "") -> Iterator[str]:
    """The commands that have an option, by their names."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from with_option(option, command, f"{name} ")
        elif command is not None and any(option in parameter.opts for parameter in command.params):
            yield before + name


@pytest.mark.parametrize("option", ["--gentle", "--metrics"])
def test_who_has_a_shared_option_is_said(option: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{option}") and "| of `" in line)
    said = re.findall(r"`([^`]+)`", row.split("| of ")[1].split(":")[0])
    assert set(said) == set(with_option(option))
    if option == "--gentle":
        first = re.search(
            "^(`verify`.*) can read gently:$", (ROOT / "docs/gentle.md").read_text(encoding="utf-8"), re.M
        )
        assert first
        assert set(re.findall(r"`([^`]+)`", first[1])) == set(said)
