#!/usr/bin/env python3
"""Take Kafka's message schemas out of its jars: `extract_schemas.py JAR_DIR > klogtool/format/internal/schemas.json`.

`extract_schemas.py JAR_DIR --beside klogtool/format/internal/schemas.json > ADDED.json` prints
only messages that are not there in the same form: what a newer release has added.

JAR_DIR holds the jars of one Kafka release. Comments and `about` texts go, and so does what says nothing about bytes
(entityType, mapKey); all else stays as Kafka has it. One message a line, so that the difference between two releases
can be read. `module` (the jar it came from) is added, because api keys are unique in a module only.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

# module -> the schemas of it that appear on disk
MODULES = {
    "kafka-clients": r"common/message/(EndTxnMarker|ControlRecordTypeSchema|LeaderChangeMessage|SnapshotHeaderRecord"
    r"|SnapshotFooterRecord|KRaftVersionRecord|VotersRecord|ConsumerProtocolSubscription|ConsumerProtocolAssignment)",
    "kafka-raft": r"common/message/QuorumStateData",
    "kafka-storage": r"message/\w+",
    "kafka-metadata": r"common/metadata/\w+",
    "kafka-group-coordinator": r"common/message/\w+",
    "kafka-transaction-coordinator": r"common/message/\w+",
    "kafka-share-coordinator": r"common/message/\w+",
}
DROPPED = {"about", "entityType", "mapKey"}


def jar_of(folder: pathlib.Path, module: str) -> pathlib.Path:
    """The one jar of a module, whatever its version (sources and tests aside)."""
    (jar,) = (p for p in folder.glob(f"{module}-*.jar") if re.fullmatch(rf"{module}-[0-9][0-9.]*\.jar", p.name))
    return jar


def without_prose(node: Any) -> Any:
    """A schema without the keys that say nothing about bytes."""
    if isinstance(node, dict):
        return {key: without_prose(value) for key, value in node.items() if key not in DROPPED}
    return [without_prose(item) for item in node] if isinstance(node, list) else node


def walk_schemas(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The schemas of every module, in order of api key and name."""
    for module, wanted in MODULES.items():
        with zipfile.ZipFile(jar_of(folder, module)) as jar:
            names = [name for name in jar.namelist() if re.fullmatch(wanted + r"\.json", name)]
            texts = [re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.MULTILINE) for name in names]
        schemas = sorted(map(json.loads, texts), key=lambda schema: (schema.get("apiKey", -1), schema["name"]))
        for schema in schemas:
            yield {"name": schema.pop("name"), "module": module, **without_prose(schema)}


def main() -> None:
    """Print the file."""
    if len(sys.argv) != 2 and sys.argv[2:3] != ["--beside"]:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    known = json.loads(pathlib.Path(sys.argv[3]).read_text())["messages"] if len(sys.argv) > 2 else []
    version = jar_of(folder, "kafka-clients").name.removeprefix("kafka-clients-").removesuffix(".jar")
    lines = [json.dumps(schema, separators=(",", ":")) for schema in walk_schemas(folder) if schema not in known]
    print('{"kafka":' + json.dumps(version) + ',"messages":[\n' + ",\n".join(lines) + "\n]}")


if __name__ == "__main__":
    main()
