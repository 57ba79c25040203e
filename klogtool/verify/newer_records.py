"""Whether what a cleaned segment leaves out has newer records with the same keys.

A cleaner leaves a record out if a newer one has its key, if it has no key, or if it is a tombstone that everybody has
seen. The newer record is in the same log. Of a `.swap` that somebody brought from elsewhere, or from another time, it
may be on no disk: then nobody knows whether the record is lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain

from klogtool.broker.content import Content, content_size
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.errors import Corrupt, Unsupported
from klogtool.format.batch import CONTROL_BIT, Record
from klogtool.format.batch_proof import FACTS
from klogtool.format.framing import CURRENT_MAGIC, Frame
from klogtool.log.file import LogFile
from klogtool.log.frames import FrameReader
from klogtool.verify.swap_records import walk_rows

MOST_BYTES = 128 << 20  # of logs that are opened record by record

_WIDTH = len(FACTS)
_COLUMNS = [FACTS.index(name) for name in ("magic", "attributes", "position")]
_HASH_SIZE = 16


def has_newer_records(replaced: Sequence[Content], kept: Sequence[Content], first: int, last: int) -> bool | None:
    """Return whether each record in [first, last] of the logs `replaced` is in the logs `kept`, or has a newer record
    there, or may have gone with its key. None: there is too much to open. Raises Unreadable."""
    if sum(map(content_size, chain(replaced, kept))) > MOST_BYTES:
        return None
    newest: dict[bytes, tuple[int, bool]] = {}  # by a hash of the key: the offset, and whether it is a tombstone
    for record in _walk_records(replaced):
        if record.key is not None and first <= record.offset <= last:
            newest[_hash(record.key)] = max(
                (record.offset, record.value is None), newest.get(_hash(record.key), (-1, False))
            )
    alone = {key: offset for key, (offset, is_tombstone) in newest.items() if not is_tombstone}
    for record in _walk_records(kept):
        if not alone:
            break
        if record.key is not None and alone.get(hashed := _hash(record.key), record.offset + 1) <= record.offset:
            del alone[hashed]
    return not alone


def _hash(key: bytes | memoryview) -> bytes:
    return blake2b(key, digest_size=_HASH_SIZE).digest()


def _walk_records(logs: Iterable[Content]) -> Iterator[Record]:
    """Yield the records of sound batches, without markers."""
    for content in logs:
        with ContentFile("", content) as file:
            for rows, stop, _ in walk_rows(file):
                yield from _records_in(file, rows[:stop])


def _records_in(file: LogFile, rows: array[int]) -> Iterator[Record]:
    reader = FrameReader(file)
    for magic, attributes, position in zip(*(rows[n::_WIDTH] for n in _COLUMNS), strict=True):
        if magic >= CURRENT_MAGIC and attributes & CONTROL_BIT:
            continue
        frame = reader.find(position, file.size)
        try:
            yield from reader.read(frame).records() if isinstance(frame, Frame) else ()
        except (Corrupt, Unsupported):  # nobody reads on in it
            continue
