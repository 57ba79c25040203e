"""The bytes of a snapshot of `__cluster_metadata`: batches of metadata records between a header and a footer.

Sources: org.apache.kafka.snapshot.RecordsSnapshotWriter, org.apache.kafka.raft.VoterSet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, to_builtins

from klogtool.format.batch import BatchOrigin, Record, build_batch
from klogtool.format.control import ControlRecordType, build_control_key
from klogtool.format.control_values import build_control_value
from klogtool.format.internal.schema import Values
from klogtool.format.uuids import ZERO_UUID, build_uuid

ZERO_ID = build_uuid(ZERO_UUID)
BATCH_BYTES = 1 << 18  # a batch ends when its values reach this; Kafka reads up to 8 MiB


class Endpoint(Struct, frozen=True):
    """Where a controller listens. name: of the listener."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """Return `HOST:PORT`, as in settings."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Voter(Struct, frozen=True):
    """A controller of a dynamic quorum. directory_id: of its metadata log dir, as Kafka prints it; empty if the record
    has none, as in a static quorum: then any directory id will do (ReplicaKey.of)."""

    id: int
    directory_id: str
    endpoints: tuple[Endpoint, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return `HOST:PORT` of each endpoint."""
        return tuple(endpoint.address for endpoint in self.endpoints)

    def as_record(self) -> Values:
        """Return the voter as a field of VotersRecord. It takes part in kraft.version 0 and 1."""
        return {
            "voterId": self.id,
            "voterDirectoryId": self.directory_id or ZERO_ID,
            "endpoints": [to_builtins(endpoint) for endpoint in self.endpoints],
            "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
        }


def voters_of(record: Values) -> Iterator[Voter]:
    """Yield the voters in the fields of a VotersRecord."""
    for voter in record["voters"]:
        endpoints = (Endpoint(one["name"], one["host"], one["port"]) for one in voter["endpoints"])
        directory_id = voter["voterDirectoryId"]
        yield Voter(voter["voterId"], "" if directory_id == ZERO_ID else directory_id, tuple(endpoints))


def build_snapshot(
    values: Iterable[bytes], *, epoch: int, timestamp_ms: int, voters: Iterable[Voter] = ()
) -> Iterator[bytes]:
    """Yield the batches of a snapshot with these metadata records, in order. epoch: of the last record it stands for.

    voters: of a dynamic quorum (kraft.version 1); none for a quorum that `controller.quorum.voters` lists.
    """
    of_data, of_control = (BatchOrigin(is_control=each, partition_leader_epoch=epoch) for each in (False, True))
    head = _control(_head(timestamp_ms, list(voters)), 0, timestamp_ms)
    yield build_batch(head, of_control)
    offset = len(head)
    for records in _data(values, offset, timestamp_ms):
        yield build_batch(records, of_data)
        offset += len(records)
    foot = _control([(ControlRecordType.SNAPSHOT_FOOTER, {})], offset, timestamp_ms)
    yield build_batch(foot, of_control)


def _head(timestamp_ms: int, voters: list[Voter]) -> list[tuple[ControlRecordType, Values]]:
    header = (ControlRecordType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": timestamp_ms})
    if not voters:
        return [header]
    return [
        header,
        (ControlRecordType.KRAFT_VERSION, {"kRaftVersion": 1}),
        (ControlRecordType.KRAFT_VOTERS, {"voters": [voter.as_record() for voter in voters]}),
    ]


def _control(records: list[tuple[ControlRecordType, Values]], offset: int, timestamp_ms: int) -> list[Record]:
    return [
        Record(offset + n, timestamp_ms, build_control_key(kind), build_control_value(kind, values))
        for n, (kind, values) in enumerate(records)
    ]


def _data(values: Iterable[bytes], offset: int, timestamp_ms: int) -> Iterator[list[Record]]:
    """Yield the records of each batch."""
    batch: list[Record] = []
    size = 0
    for value in values:
        batch.append(Record(offset, timestamp_ms, None, value))
        offset, size = offset + 1, size + len(value)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
