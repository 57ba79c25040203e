"""Kafka's LocalTieredStorage for a broker: it is in a test jar, and that of 4.4.0 is not published."""

from __future__ import annotations

import pathlib
import subprocess
import zipfile
from typing import Any

from .brokers import a_broker, fetched
from .test_brokers_tiered import tiered_config

PACKAGE = "org/apache/kafka/server/log/remote/storage"
# What the sources of 4.3.1 lack for 4.4.0: a class that moved, and a helper of tests for a case that is none here.
FOR_4_4_0 = {
    "common.utils.LogContext;": "common.utils.internals.LogContext;",
    "import org.apache.kafka.test.TestUtils;": "",
    'TestUtils.tempDirectory(ROOT_STORAGE_DIR_NAME + "-")': "null",
}


def tiered(version: str, work: pathlib.Path) -> Any:
    """A broker with its remote storage in work/remote."""
    config = tiered_config(work / "remote")
    if version == "4.4.0":
        config["remote.log.storage.manager.class.path"] = f"{build(version)}/"
        return a_broker(version, work / "broker", config=config)
    return a_broker(
        version, work / "broker", jars=[f"org.apache.kafka:kafka-storage:{version}:jar:test"], config=config
    )


def build(version: str) -> pathlib.Path:
    """Compile it of the sources of 4.3.1, once; return the folder of its classes."""
    module = fetched(version)
    classes: pathlib.Path = module.cache_home() / "extra" / f"local-tiered-storage-{version}"
    sources = classes.with_name(f"{classes.name}-sources")
    if not (classes / f"{PACKAGE}/LocalTieredStorage.class").exists():
        with zipfile.ZipFile(module.fetch_jar("org.apache.kafka:kafka-storage:4.3.1:jar:test-sources")) as jar:
            names = [name for name in jar.namelist() if name.startswith(PACKAGE) and not name.endswith("Test.java")]
            jar.extractall(sources, [name for name in names if name.endswith(".java")])
        for path in sources.rglob("*.java"):
            text = path.read_text()
            for old, new in FOR_4_4_0.items():
                text = text.replace(old, new)
            path.write_text(text)
        words = [
            "javac",
            "-nowarn",
            "-proc:none",
            "-d",
            classes,
            "-cp",
            module.classpath(version),
            "-sourcepath",
            sources,
        ]
        subprocess.run([*words, sources / PACKAGE / "LocalTieredStorage.java"], check=True, capture_output=True)
    return classes
