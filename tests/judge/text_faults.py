"""Faults in the small text files: leader epochs, checkpoints, ids, properties, as editors and scripts leave them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from .disks import CHECKPOINTS, MARKER, Disks, Fault, Lines, partitions_of, read_lines, write_lines

EPOCHS, ID = "leader-epoch-checkpoint", "partition.metadata"
ZERO_UUID, ONE_UUID = "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"


def rewritten_by_an_editor(file: Path, disks: Disks) -> str:
    """The same lines, not the same bytes."""
    text = file.read_bytes()
    edits = {
        "CRLF": text.replace(b"\n", b"\r\n"),
        "a byte order mark": b"\xef\xbb\xbf" + text,
        "no newline at the end": text.rstrip(b"\n"),
        "an empty line at the end": text + b"\n",
        "an empty line at the start": b"\n" + text,
        "blanks at the ends": text.replace(b"\n", b" \n"),
        "tabs": text.replace(b" ", b"\t"),
        "two blanks": text.replace(b" ", b"  "),
        "a comment": b"# restored\n" + text,
        "UTF-16": text.decode("latin-1").encode("utf-16"),
        "lines reversed": b"".join(reversed(text.splitlines(keepends=True))),
        "the last line cut": text[:-3],
        "zeros": bytes(len(text)),
        "a zero byte at the end": text + b"\0",
        "all twice": text + text,
    }
    how = disks.rng.choice(list(edits))
    file.write_bytes(edits[how])
    return f"{disks.name(file)}: {how}"


def edit_small_file(disks: Disks) -> str:
    """Of a partition."""
    return rewritten_by_an_editor(disks.partition() / disks.rng.choice([EPOCHS, EPOCHS, ID]), disks)


def edit_small_file_of_log_dir(disks: Disks) -> str:
    files = [path for path in disks.log_dir().iterdir() if path.name in (*CHECKPOINTS, "meta.properties")]
    return rewritten_by_an_editor(disks.rng.choice(sorted(files)), disks)


def change_epoch_lines(disks: Disks) -> str:
    """Lines of leader epochs are missing, doubled, moved, or of another partition or time."""
    file = disks.partition() / EPOCHS
    rows = [tuple(map(int, line.split())) for line in file.read_text().splitlines()[2:]]
    how = disks.rng.choice(
        ["first gone", "last gone", "later", "earlier", "one more", "older", "wrong count", "doubled"]
    )
    if how == "older":
        source = disks.older_copy(file.parent) / EPOCHS
        shutil.copy2(source, file)
        return f"older {disks.name(file)} ({source.parts[-3]})"
    shift = disks.rng.choice([1, 3, 20, 300])
    changed = {
        "first gone": rows[1:],
        "last gone": rows[:-1],
        "later": [(epoch, start + shift) for epoch, start in rows],
        "earlier": [(epoch, max(0, start - shift)) for epoch, start in rows],
        "one more": [*rows, (rows[-1][0] + 1, rows[-1][1] + shift)],
        "wrong count": rows,
        "doubled": [*rows, rows[-1]],
    }[how]
    count = len(changed) + (how == "wrong count") * disks.rng.choice([-1, 1])
    _write_rows(file, count, changed)
    return f"{disks.name(file)}: {how}: {changed}"


def _write_rows(file: Path, count: int, rows: Sequence[tuple[int, ...]]) -> None:
    lines = ["0", str(count), *(" ".join(map(str, row)) for row in rows)]
    file.write_text("".join(f"{line}\n" for line in lines))


def epochs_of_another(disks: Disks) -> str:
    """Leader epochs of another partition, or of an older state of this one."""
    file = disks.partition() / EPOCHS
    source = disks.rng.choice([path for state in disks.older for path in partitions_of(state)]) / EPOCHS
    shutil.copy2(source, file)
    return f"{disks.name(file)} is that of {source.parent.name} ({source.parts[-4]})"


def change_id_file(disks: Disks) -> str:
    file = disks.partition() / ID
    text = file.read_text()
    edits = {
        "version 1": text.replace("version: 0", "version: 1"),
        "no version": re.sub("version: 0\n", "", text),
        "the zero id": re.sub(r"topic_id: .*", f"topic_id: {ZERO_UUID}", text),
        "the metadata's id": re.sub(r"topic_id: .*", f"topic_id: {ONE_UUID}", text),
        "an id that is too long": re.sub(r"topic_id: (.*)", r"topic_id: \1AA", text),
        "one more line": text + "topic: x\n",
        "upper case": text.upper(),
        "no blank": text.replace(": ", ":"),
    }
    how = disks.rng.choice(list(edits))
    file.write_text(edits[how])
    return f"{disks.name(file)}: {how}"


def change_checkpoint_lines(disks: Disks) -> str:
    """Of a log dir's checkpoint lines are left out, all of them are 0, or those of both log dirs stand in one file."""
    file = disks.log_dir() / disks.rng.choice(CHECKPOINTS)
    lines = read_lines(file)
    how = disks.rng.choice(["half", "zeros", "both", "of the other"])
    other = read_lines(disks.other_log_dir(file.parent) / file.name)
    changed: dict[str, Lines] = {
        "half": {name: offset for name, offset in lines.items() if disks.rng.random() < 0.5},
        "zeros": dict.fromkeys(lines, 0),
        "both": {**other, **lines},
        "of the other": other,
    }
    write_lines(file, changed[how])
    return f"{disks.name(file)}: {how} ({len(changed[how])} lines)"


def change_marker_file(disks: Disks) -> str:
    """A clean marker of another kind: empty, of a release before, of another broker epoch, a folder, a link."""
    marker = disks.log_dir() / MARKER
    marker.unlink(missing_ok=True)
    how = disks.rng.choice(["empty", "epoch 7", "no epoch", "garbage", "a folder", "a link to nowhere"])
    texts = {"empty": "", "epoch 7": '{"version":0,"brokerEpoch":7}', "no epoch": '{"version":0}', "garbage": "\0\0\0"}
    if how == "a folder":
        marker.mkdir()
    elif how in texts:
        marker.write_text(texts[how])
    else:
        marker.symlink_to("../not-mounted")
    return f"{disks.name(marker)}: {how}"


def change_properties(disks: Disks) -> str:
    """Keys of meta.properties: without, twice, of other kinds."""
    file = disks.log_dir() / "meta.properties"
    text = file.read_text()
    edits = {
        "version 0": text.replace("version=1", "version=0"),
        "version 2": text.replace("version=1", "version=2"),
        "no version": re.sub(r"version=.*\n", "", text),
        "no cluster.id": re.sub(r"cluster\.id=.*\n", "", text),
        "no node.id": re.sub(r"node\.id=.*\n", "", text),
        "broker.id": text.replace("node.id", "broker.id"),
        "both ids": text + "broker.id=1\n",
        "node.id x": re.sub(r"node\.id=.*", "node.id=x", text),
        "node.id of a stranger, then ours": "node.id=9\n" + text,
        "blanks": text.replace("=", " = "),
        "colons": text.replace("=", ": "),
        "directory.id is reserved": re.sub(r"directory\.id=.*", f"directory.id={ZERO_UUID}", text),
        "directory.id is short": re.sub(r"directory\.id=.*", "directory.id=abc", text),
        "one more key": text + "restored=yes\n",
        "a line that goes on": text.replace("version=1", "version=\\\n1"),
    }
    how = disks.rng.choice(list(edits))
    file.write_text(edits[how])
    return f"{disks.name(file)}: {how}"


IN_PARTITIONS: list[tuple[Fault, float]] = [
    (edit_small_file, 2),
    (change_epoch_lines, 3),
    (epochs_of_another, 1),
    (change_id_file, 1),
]
IN_LOG_DIRS: list[tuple[Fault, float]] = [
    (edit_small_file_of_log_dir, 1),
    (change_checkpoint_lines, 2),
    (change_marker_file, 1),
    (change_properties, 0.6),
]
