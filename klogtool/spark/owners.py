"""Whose a partition dir is: the columns `cluster_id`, `node_id` and `log_dir`.

They tell the copies in a fleet apart.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.format.identity import parse_meta_properties
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.storage import Place, Stored, open_place
from klogtool.render.arrow_reference import column_text

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of_ddl(text: str) -> dict[str, str]:
    """Return names and types of columns that are declared as in SQL: `offset bigint, key binary`."""
    return dict(column.split(" ") for column in text.split(", "))


OWNER = columns_of_ddl("cluster_id string, node_id int, log_dir string")


class Owner(Struct, frozen=True):
    """The values of the columns, in their order. None: meta.properties does not say it, or there is no log dir."""

    cluster_id: str | None = None
    node_id: int | None = None
    log_dir: str | None = None

    def arrays(self, rows: int) -> dict[str, pa.Array]:
        """Return the columns for a number of rows."""
        import pyarrow as pa

        kinds = {"string": pa.string(), "int": pa.int32()}
        return {name: pa.repeat(pa.scalar(getattr(self, name), kinds[kind]), rows) for name, kind in OWNER.items()}


def owner_of(place: Place, identity: Stored | None, folder: str) -> Owner:
    """Return the owner of a partition dir. identity: meta.properties of its log dir; folder: the path that users see.

    Raises Unreadable.
    """
    named = find_partition_dir_name(os.path.basename(folder)) is not None
    log_dir = column_text(os.path.dirname(folder)) if named else None
    return Owner(*((None, None) if identity is None else _read(place, identity)), log_dir)


@lru_cache(maxsize=256)  # thousands of partitions have the same one
def _read(place: Place, identity: Stored) -> tuple[str | None, int | None]:
    try:
        properties = parse_meta_properties(open_place(place)[0].read(identity))
    except Unreadable:  # a file that may not be read is not absent
        raise
    except KlogError:
        return None, None
    return None if properties.cluster_id is None else column_text(properties.cluster_id), properties.node_id
