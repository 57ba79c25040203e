"""Counts the messages of Kafka that `klogtool explain` knows, from the jars of its releases, or from sources.

    python tools/kafka_messages.py JARS/kafka-*.jar                 # classes: every release has them
    python tools/kafka_messages.py kafka-storage-4.3.1-sources.jar  # sources
    python tools/kafka_messages.py FOLDER --unknown                 # sources in a folder; also list what is not known

It takes what is logged as ERROR or FATAL, what is given to a fault handler, and the messages of exceptions that are
thrown, of kafka-storage, kafka-raft, kafka-metadata, and of the record and consumer classes of kafka-clients. What
varies becomes `{}`. A message is known if `explain` recognises it as a whole.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from class_file import LOGGED, THROWN, ClassFile

from klogtool.doctor.messages import recognise

STARTS = re.compile(
    r"\b(?P<log>(?:log|LOG|logger)\.(?:error|fatal)|\w*[fF]aultHandler\.handleFault)\(|\bthrow new (?P<ex>\w+)\("
)
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
FORMATTED = re.compile(r"%[-\d$,.]*[sdxXfbnc]")
# Below org/apache/kafka: the classes of which somebody reads messages beside a log dir.
FOLDERS = (
    "storage/internals/",
    "server/log/",
    "server/BrokerLifecycleManager",
    "server/AssignmentsManager",
    "server/fault/",
    "server/partition/",
    "server/util/FutureUtils",
    "server/util/KafkaScheduler",
    "raft/",
    "snapshot/",
    "image/",
    "controller/",
    "metadata/",
    "common/record/",
    "clients/consumer/internals/Fetch",
    "clients/consumer/internals/CompletedFetch",
    "clients/consumer/internals/AbstractFetch",
)
FEWEST_LETTERS = 12  # a shorter message is in too many others
ENDS = {")": -1, "(": 1, "{": 1, "}": -1, "[": 1, "]": -1}


def main(arguments: list[str]) -> int:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path, help="source jars, or folders of sources")
    parser.add_argument("--unknown", action="store_true", help="list the messages that are not known")
    asked = parser.parse_args(arguments)
    found = messages_of(asked.sources)
    known = {key for key in found if is_known(key[1])}
    if asked.unknown:
        for (kind, message), name in sorted(found.items(), key=lambda item: (item[1], item[0])):
            if (kind, message) not in known:
                print(f"{kind}\t{name}\t{message}")
    totals, counts = Counter(kind for kind, _ in found), Counter(kind for kind, _ in known)
    for kind in (LOGGED, THROWN):
        print(f"{kind}: {counts[kind]} of {totals[kind]} known", file=sys.stderr)
    return 0


def messages_of(sources: Iterable[Path]) -> dict[tuple[str, str], str]:
    """Return the class of each message, by its kind and template."""
    found: dict[tuple[str, str], str] = {}
    for source in sources:
        for name, data in _classes(source):
            walk = ClassFile(data).messages() if name.endswith(".class") else _messages(data.decode())
            for kind, message in walk:
                if sum(character.isalpha() for character in message.replace("{}", "")) >= FEWEST_LETTERS:
                    found.setdefault((kind, message), Path(name).stem)
    return found


def _classes(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield paths and bytes of the classes that matter, or of their sources."""
    if source.is_dir():
        for path in sorted(source.rglob("*.java")):
            if _matters(path.as_posix()):
                yield path.as_posix(), path.read_bytes()
        return
    with zipfile.ZipFile(source) as jar:
        for name in sorted(jar.namelist()):
            if name.endswith((".java", ".class")) and _matters(name):
                yield name, jar.read(name)


def _matters(path: str) -> bool:
    inner = path.rpartition("org/apache/kafka/")[2]
    return inner.startswith(FOLDERS) and not inner.endswith("package-info.java")


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and message of each call, without comments around them."""
    for start in STARTS.finditer(text):
        message = _template(_first_argument(text, start.end()))
        if message:
            yield THROWN if start["ex"] else LOGGED, f"{start['ex']}: {message}" if start["ex"] else message


def _first_argument(text: str, at: int) -> str:
    """Return the expression from a position to its comma, or to the bracket that ends the call."""
    depth, start, is_text = 0, at, False
    while at < len(text):
        character = text[at]
        if is_text:
            at += 1 if character == "\\" else 0
            is_text = character != '"'
        elif character == '"':
            is_text = True
        elif depth == 0 and character in ",)":
            return text[start:at]
        else:
            depth += ENDS.get(character, 0)
        at += 1
    return ""


def _template(expression: str) -> str:
    """Return the text of a concatenation, with `{}` for what is not a literal."""
    is_format = "String.format(" in expression
    if is_format:
        expression = _first_argument(expression, expression.index("String.format(") + len("String.format("))
    texts = list(TEXT.finditer(expression))
    if not texts:
        return ""
    parts, at = [], texts[0].start()
    if expression[:at].strip():
        parts.append("{}")
    for found in texts:
        if expression[at : found.start()].strip(" \n\t+"):
            parts.append("{}")
        parts.append(found[1])
        at = found.end()
    if expression[at:].strip(" \n\t+"):
        parts.append("{}")
    whole = "".join(parts).replace('\\"', '"').replace("\\n", "\n").replace("\\t", " ")
    return FORMATTED.sub("{}", whole).strip()


def is_known(message: str) -> bool:
    """Return whether `explain` recognises a message as a whole."""
    return any(one.is_whole for one in recognise(message.replace("{}", "7")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
