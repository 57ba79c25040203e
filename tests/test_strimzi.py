"""docs/cookbook/under-strimzi.md: its resources are what the operator's schemas take, and its jobs run.

strimzi.json has the schemas of install/cluster-operator (Strimzi 1.3, Apache License 2.0), without descriptions and
what the page does not need; a name that the schema does not have is refused.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from running import FIXTURES, ROOT, run_here

PAGE = (ROOT / "docs/cookbook/under-strimzi.md").read_text(encoding="utf-8")
SCHEMAS = json.loads((ROOT / "tests/strimzi.json").read_text())
MANIFESTS = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]
OF_STRIMZI = [manifest for manifest in MANIFESTS if manifest["kind"] in SCHEMAS]
JOBS = [manifest for manifest in MANIFESTS if manifest["kind"] == "Job"]


def wrong(manifest: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMAS[manifest["kind"]]).iter_errors(manifest)]


@pytest.mark.parametrize("manifest", OF_STRIMZI, ids=lambda manifest: manifest["kind"])
def test_the_operator_takes_the_resources(manifest: dict[str, Any]) -> None:
    assert wrong(manifest) == []
    about = manifest["metadata"]
    assert all(isinstance(value, str) for kind in ("annotations", "labels") for value in about.get(kind, {}).values())
    assert (about["name"] == "my-cluster") == (manifest["kind"] == "Kafka")
    assert manifest["kind"] == "Kafka" or about["labels"]["strimzi.io/cluster"] == "my-cluster"


def test_the_schemas_refuse_what_the_operator_refuses() -> None:
    (pool,) = [manifest for manifest in OF_STRIMZI if manifest["kind"] == "KafkaNodePool"]
    for change in ({"roles": ["leader"]}, {"replica": 3}, {"replicas": "3"}, {"storage": {"type": "disk"}}):
        assert wrong({**pool, "spec": {**pool["spec"], **change}}), change


def test_the_cluster_id_is_that_of_the_disks_and_belongs_into_the_status() -> None:
    (kafka,) = [manifest for manifest in OF_STRIMZI if manifest["kind"] == "Kafka"]
    (patch,) = map(json.loads, re.findall(r"--subresource status --type merge -p '(.*?)'", PAGE))
    assert wrong({**kafka, **patch}) == []
    assert wrong({**kafka, "status": {"clusterid": "x"}})
    assert f'"cluster_id":"{patch["status"]["clusterId"]}"' in PAGE


def test_all_kinds_are_there() -> None:
    assert {manifest["kind"] for manifest in MANIFESTS} == {*SCHEMAS, "Job"}
    assert len(JOBS) == 2


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job["metadata"]["name"])
def test_the_jobs_run(job: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """Each reads the log dir of its node, and its claim is that of the node's pool."""
    spec = job["spec"]["template"]["spec"]
    (container,), (volume,) = spec["containers"], spec["volumes"]
    claim = volume["persistentVolumeClaim"]
    assert (claim["claimName"], claim["readOnly"]) == ("data-0-my-cluster-dual-1", True)
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/disk", "readOnly": True}]
    (tmp_path / "kafka-log1").symlink_to(FIXTURES / "two-disks/logdir/d1")
    done = run_here([word.replace("/disk", str(tmp_path)) for word in container["args"]], tmp_path)
    assert (done.status in (0, 1), "Traceback" in done.err) == (True, False), done.err
    if "collect" in container["args"]:
        assert done.out.startswith(b'{"type":"klogtool"')
