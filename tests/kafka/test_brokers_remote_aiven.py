"""Aiven's plugin in a broker: `klogtool remote` reads what it stored, and says what consumers do not get of wounded
stores. KLOGTOOL_AIVEN names the folder with its jars (core, storage-core, storage-filesystem, and what they need)."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from .brokers import a_broker
from .test_brokers_remote import METADATA, TOPIC, run, seen
from .test_brokers_start_on_it import a_scratch_folder
from .test_brokers_tiered import tiered_config
from .tiers import Tier, compare_with_consumers, fill

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]

Path: TypeAlias = pathlib.Path
JARS = os.environ.get("KLOGTOOL_AIVEN", "")
VERSIONS = ("4.3.1", "3.9.2")  # the plugin of May 2026 needs a class that 4.4.0 has elsewhere
CHUNK = 256


def aiven(version: str, work: Path, form: str) -> Any:
    if not JARS:
        pytest.skip("KLOGTOOL_AIVEN names no folder with the jars of Aiven's plugin")
    storage = "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage"
    settings = {
        "storage.backend.class": storage,
        "storage.root": work / "remote",
        "storage.overwrite.enabled": "true",
        "key.prefix": "backup/",
        "chunk.size": CHUNK,
        "custom.metadata.fields.include": "REMOTE_SIZE",
        "compression.enabled": str("zstd" in form).lower(),
    }
    if "sealed" in form:
        settings |= {"encryption.enabled": "true", "encryption.key.pair.id": "key1", "encryption.key.pairs": "key1"}
        settings |= {f"encryption.key.pairs.key1.{path.stem}.key.file": path for path in write_keys(work)}
    (work / "remote").mkdir()
    config = {
        **tiered_config(work / "remote"),
        "remote.log.storage.manager.class.name": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
        "remote.log.storage.manager.class.path": f"{JARS}/*",
        **{f"rsm.config.{name}": value for name, value in settings.items()},
    }
    del config["rsm.config.dir"]
    return a_broker(version, work / "broker", config=config)


def write_keys(folder: Path) -> list[Path]:
    key = rsa.generate_private_key(65537, 2048)
    form, private = serialization.PrivateFormat.PKCS8, folder / "private.pem"
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    public, form_of_public = folder / "public.pem", serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form_of_public))
    return [private, public]


def smaller_log(data: bytes) -> bytes:
    """A manifest with another size of the log than of its chunks: the plugin does not compare them."""
    fields = json.loads(data)
    fields["chunkIndex"]["originalFileSize"] -= 10
    return json.dumps(fields).encode()


ALL = ("log", "indexes", "rsm-manifest")
WOUNDS: dict[str, Callable[[Tier], None]] = {
    "none": lambda _: None,
    "manifests exchanged": lambda tier: tier.exchange("rsm-manifest"),
    "manifests exchanged with the first": lambda tier: tier.exchange("rsm-manifest", of=(0, 1)),
    "logs exchanged": lambda tier: tier.exchange("log"),
    "logs exchanged with the first": lambda tier: tier.exchange("log", of=(0, 1)),
    "indexes exchanged": lambda tier: tier.exchange("indexes"),
    "all exchanged": lambda tier: tier.exchange(*ALL),
    "all exchanged with the first": lambda tier: tier.exchange(*ALL, of=(0, 1)),
    "log and manifest exchanged": lambda tier: tier.exchange("log", "rsm-manifest"),
    "log and manifest exchanged with the first": lambda tier: tier.exchange("log", "rsm-manifest", of=(0, 1)),
    "manifest gone": lambda tier: tier.path(1, "rsm-manifest").unlink(),
    "manifest empty": lambda tier: tier.edit(lambda _: b"", 1, "rsm-manifest"),
    "manifest cut": lambda tier: tier.edit(lambda data: data[:-20], 1, "rsm-manifest"),
    "log gone": lambda tier: tier.path(1).unlink(),
    "log empty": lambda tier: tier.edit(lambda _: b""),
    "log cut": lambda tier: tier.edit(lambda data: data[:-20]),
    "log cut by a chunk": lambda tier: tier.edit(lambda data: data[: -CHUNK - 60]),
    "log longer": lambda tier: tier.edit(lambda data: data + bytes(70)),
    "log flipped": lambda tier: tier.edit(lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]),
    "indexes gone": lambda tier: tier.path(1, "indexes").unlink(),
    "indexes empty": lambda tier: tier.edit(lambda _: b"", 1, "indexes"),
    "indexes cut": lambda tier: tier.edit(lambda data: data[:-3], 1, "indexes"),
    "a smaller log": lambda tier: tier.edit(smaller_log, 1, "rsm-manifest"),
    "deletion begun": lambda tier: tier.tell(2),
}


@pytest.mark.parametrize("form", ["plain", "zstd", "sealed", "zstd and sealed"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_and_its_metadata_come_back(version: str, form: str) -> None:
    with a_scratch_folder() as work, aiven(version, work, form) as broker:
        fill(broker, 1)
        broker.start()
        records = seen(broker)
        broker.stop()
        log_dir = broker.log_dirs[0]
        store, key = work / "remote/backup", ["--key", f"key1={work / 'private.pem'}"] if "sealed" in form else []
        words = ["--metadata", log_dir, "--local", log_dir, *key]
        assert run("verify", store, *words, "--fail-on", "warning").status == 0
        assert run("fetch", store, f"{TOPIC}-0", *words, "--output", work / "t-0").status == 0
        assert run("metadata", store, "--partitions", 1, "--output", work / "rebuilt").status == 0
        shutil.rmtree(log_dir / "remote-log-index-cache", ignore_errors=True)
        broker.plant(work / "rebuilt" / f"{METADATA}-0", METADATA, 0, clean=True)
        broker.start()
        assert seen(broker) == records
        broker.stop()
        with a_broker(version, work / "plain") as plain:
            plain.start()
            plain.create_topic(TOPIC, 1, **{"retention.ms": -1})
            plain.stop()
            ends = {"recovery_point": len(records), "high_watermark": len(records)}
            plain.plant(work / "t-0", TOPIC, 0, clean=True, **ends)
            plain.start()
            assert seen(plain) == records
            plain.stop()


@pytest.mark.parametrize("form", ["plain", "zstd", "zstd and sealed"])
def test_consumers_do_not_get_what_verify_says(form: str) -> None:
    with a_scratch_folder() as work, aiven("4.3.1", work, form) as broker:
        fill(broker, len(WOUNDS))
        key = ["--key", f"key1={work / 'private.pem'}"] if "sealed" in form else []
        compare_with_consumers(broker, work, work / "remote/backup", WOUNDS, *key)
