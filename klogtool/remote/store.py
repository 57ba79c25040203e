"""A store of remote segments: its objects, listed once, by segment. The bytes are read elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Annotated, TypeAlias

from msgspec import Struct

from klogtool.errors import AtPath, Corrupt, KlogError, Unsupported
from klogtool.format.tiered import aiven, local_storage
from klogtool.format.tiered.manifest import MOST_MANIFEST_BYTES, SegmentManifest, parse_manifest
from klogtool.format.tiered.objects import ObjectName, TierLayout, parse_object_name, recognise
from klogtool.format.tiered.sealing import RsaKey, parse_private_key, unwrap
from klogtool.format.tiered.segments import SegmentKey
from klogtool.log.file import Unreadable, read_whole
from klogtool.log.log_dirs import has_root_file
from klogtool.log.storage import LOCAL_SCHEMES, LocalStorage, Place, Storage, Stored, open_place
from klogtool.parameters import Unit, parameter

MOST_SIDE_BYTES = 256 << 20  # of an index that is read whole
MOST_KEY_BYTES = 1 << 20
MetadataDirs: TypeAlias = Annotated[
    tuple[str, ...], parameter("A log dir that has partitions of __remote_log_metadata. Repeatable.", Unit.LOG_DIR)
]
KEY_HELP = "The private key (PEM) of a key pair of Aiven's plugin, by its id. Repeatable."
StoreKeys: TypeAlias = Annotated[tuple[str, ...], parameter(KEY_HELP, Unit.TEXT, metavar="ID=FILE")]


class StoredSegment(Struct, frozen=True):
    """The objects of one segment. objects: by suffix. topic: by the name of the folder."""

    key: SegmentKey
    layout: TierLayout
    topic: str
    start_offset: int
    folder: str
    objects: Mapping[str, Stored]

    @property
    def size(self) -> int:
        """Bytes of all its objects."""
        return sum(stored.size for stored in self.objects.values())

    @property
    def newest_ms(self) -> int:
        """When the newest of its objects was written; -1 if the store does not say so."""
        return max(stored.mtime_ms for stored in self.objects.values())

    @property
    def log(self) -> Stored | None:
        """Its log object."""
        return self.objects.get(local_storage.LOG)

    @property
    def path(self) -> str:
        """The path of its objects, without the suffix."""
        one = next(iter(self.objects.values())).path
        return one.rpartition(".")[0]

    @property
    def path_of_log(self) -> str:
        """The path of its log object, existing or not."""
        return f"{self.path}.{local_storage.LOG}"


class RemoteStore(Struct, frozen=True):
    """A store. uri: without passwords. segments: by id; copies: further objects of the same ids, in other folders.
    foreign: objects of no known layout. others: whose those are, as far as their names say so. keys: private keys, by
    id."""

    uri: str
    storage: Storage
    segments: Mapping[SegmentKey, StoredSegment]
    copies: tuple[StoredSegment, ...]
    foreign: tuple[Stored, ...]
    others: TierLayout
    keys: Mapping[str, RsaKey]

    @property
    def is_local(self) -> bool:
        """Return whether the objects are files of this machine."""
        return isinstance(self.storage, LocalStorage)

    def read(self, stored: Stored, limit: int) -> bytes:
        """Return the bytes of a small object. Raises KlogError, also if it has more than `limit` bytes."""
        if stored.size > limit:
            raise Unsupported(f"{stored.size} bytes are more than such an object can have", path=stored.path)
        data = self.storage.read(stored)
        if len(data) != stored.size:
            raise KlogError(f"{len(data)} of {stored.size} bytes were read", path=stored.path)
        return data

    def manifest(self, segment: StoredSegment) -> SegmentManifest | None:
        """Return the manifest of a segment; None if its layout has none, or it is missing. Raises KlogError for one
        that cannot be read."""
        stored = segment.objects.get(aiven.MANIFEST)
        if stored is None:
            return None
        with AtPath(stored.path):
            return parse_manifest(self.read(stored, MOST_MANIFEST_BYTES))

    def data_key(self, manifest: SegmentManifest) -> bytes:
        """Return the key with which a segment is encrypted. Raises Unsupported if no private key was given for it."""
        encryption = manifest.encryption
        if encryption is None:
            return b""
        if encryption.key_id not in self.keys:
            raise Unsupported(f"encrypted with the key {encryption.key_id}: give it (--key {encryption.key_id}=FILE)")
        return unwrap(encryption.wrapped_key, self.keys[encryption.key_id])


def gave_other_bytes(path: str) -> Unreadable:
    """Return the error of a store whose answers for one object differ, which have the length that was requested."""
    return Unreadable("the store gave other bytes when it was asked again: what the object has is unknown", path=path)


def read_key(text: str) -> tuple[str, RsaKey]:
    """Read a private key: ID=FILE. Raises Corrupt if that is not its form, or the file is none; Unreadable."""
    key_id, equals, path = text.partition("=")
    if not equals:
        raise Corrupt(f"'{text}' is not ID=FILE")
    with AtPath(path):
        return key_id, parse_private_key(read_whole(path, limit=MOST_KEY_BYTES))


def open_store(uri: str, keys: Mapping[str, RsaKey] | None = None) -> RemoteStore:
    """List a store: a folder, or a URI such as s3://bucket/prefix. keys: private keys, by their id.

    Raises KlogError if it cannot be listed, or is something else: one object, or a log dir. A local folder may be
    empty.
    """
    storage, root = open_place(place := Place(uri))
    if place.scheme in LOCAL_SCHEMES:
        root = uri.removeprefix("file://")  # objects are named as they are typed
    listed = storage.list(root)
    if any(stored.path in (root, os.path.abspath(root)) for stored in listed):
        raise KlogError("an object, not a remote store: name the folder that has all partitions", path=place.shown)
    store = store_of(place, storage, listed, keys)
    names = {stored.path.removeprefix(root).lstrip("/") for stored in store.foreign}
    if not store.segments and has_root_file(names):
        raise KlogError("a log dir, not a remote store: name it with --metadata and --local", path=place.shown)
    return store


def check_segments(store: RemoteStore) -> None:
    """Raises KlogError if the store has no remote segment: nothing can be said of another folder."""
    if not store.segments:
        raise KlogError("no remote segment is in it: is it the store?", path=store.uri)


def store_of(
    place: Place, storage: Storage, listed: Iterable[Stored], keys: Mapping[str, RsaKey] | None = None
) -> RemoteStore:
    """Return the store that has these objects."""
    named: dict[tuple[str, SegmentKey], tuple[ObjectName, dict[str, Stored]]] = {}
    foreign = []
    for stored in listed:
        name = parse_object_name(stored.path)
        if name is None:
            foreign.append(stored)
        else:
            named.setdefault((name.folder, name.key), (name, {}))[1][name.suffix] = stored
    segments: dict[SegmentKey, StoredSegment] = {}
    copies = []
    for name, objects in named.values():
        segment = StoredSegment(name.key, name.layout, name.topic, name.start_offset, name.folder, objects)
        if segments.setdefault(name.key, segment) is not segment:
            copies.append(segment)
    others = recognise(stored.path for stored in foreign)
    return RemoteStore(place.shown, storage, segments, tuple(copies), tuple(foreign), others, keys or {})
