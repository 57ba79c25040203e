"""A log dir goes offline in which the broker, by the metadata, still leads a partition: what becomes of the others.

tests/kafka/test_brokers_unled.py puts the claims to brokers.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from loading import make, segment
from quorums import directory_id
from raw_batches import build_batch
from running import run_here

from klogtool.format.batch import Record
from klogtool.format.internal.records import build_metadata_record

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"
NOBODY, OURS = -1, 1


@pytest.mark.parametrize("leader", [NOBODY, OURS])
@pytest.mark.parametrize("has_elr", [False, True])
@pytest.mark.parametrize("is_offline", [False, True])
def test_what_is_promised_of_the_other_log_dir(
    leader: int, has_elr: bool, is_offline: bool, tmp_path: pathlib.Path
) -> None:
    """leader: of the partitions. is_offline: d1, because of t-1."""
    d0, d1 = log_dirs_in(tmp_path, leader, has_elr)
    if is_offline:
        index = d1 / "t-1" / f"{0:020d}.index"
        index.unlink(missing_ok=True)
        index.mkdir()
    done = run_here(["doctor", str(d0), str(d1), "--json"], tmp_path)
    rows = [json.loads(line) for line in done.out.splitlines()]
    served = {row["path"]: row["served"] for row in rows if row.get("about") == "partition"}
    is_open = is_offline and leader == OURS and not has_elr
    assert (served[f"{d0}/t-0"], served[f"{d1}/t-1"]) == (None if is_open else True, not is_offline)
    text = " ".join(run_here(["doctor", str(d0), str(d1)], tmp_path).out.decode().split())
    assert (f"mend {d1} before any start" in text) is (is_offline and leader == OURS)
    assert ("may not make this broker the leader" in text) is is_open


def log_dirs_in(place: pathlib.Path, leader: int, has_elr: bool) -> tuple[pathlib.Path, pathlib.Path]:
    log_dirs = place / "d0", place / "d1"
    for number, log_dir in enumerate(log_dirs):
        log_dir.mkdir()
        make(log_dir / f"t-{number}", {0: segment(0)})
        (log_dir / f"t-{number}" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
        (log_dir / "meta.properties").write_text(
            f"version=1\nnode.id=1\ncluster.id=c\ndirectory.id={directory_id(number)}\n"
        )
    records = [build_metadata_record("TopicRecord", 0, {"name": "t", "topicId": TOPIC_ID})]
    records += [
        build_metadata_record(
            "PartitionRecord",
            1,
            {
                "topicId": TOPIC_ID,
                "partitionId": number,
                "replicas": [1],
                "isr": [1],
                "leader": leader,
                "directories": [directory_id(number)],
            },
        )
        for number in range(2)
    ]
    level = {"name": "eligible.leader.replicas.version", "featureLevel": 1}
    records += [build_metadata_record("FeatureLevelRecord", 0, level)] if has_elr else []
    metadata = log_dirs[0] / "__cluster_metadata-0"
    metadata.mkdir()
    metadata.joinpath(f"{0:020d}.log").write_bytes(
        b"".join(build_batch([Record(n, 0, None, value)], partition_leader_epoch=1) for n, value in enumerate(records))
    )
    return log_dirs
