"""free: the kinds of files that can be given up, the safest first.

Kinds that lose nothing come first, then what a broker deletes by itself. Kinds that lose something come last.
"""

from __future__ import annotations

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.plans.causes import FreeBroker, FreeCosts, FreeWhat, FreeWhy


class FreeKind(Struct, frozen=True):
    """name: for --only and --except. loses: whether somebody may miss what is given up. undo: whether it can be taken
    back, if it was moved to another disk."""

    name: str
    loses: bool = False
    undo: bool = True

    @property
    def _key(self) -> str:
        return self.name.upper().replace("-", "_")

    @property
    def what(self) -> Reason:
        """The kind in words."""
        return FreeWhat[self._key]()

    @property
    def why(self) -> Reason:
        """Why it is safe."""
        return FreeWhy[self._key]()

    @property
    def broker(self) -> Reason:
        """What a broker does about it by itself, and when."""
        return FreeBroker[self._key]()

    @property
    def costs(self) -> Reason:
        """What can no longer be done."""
        return FreeCosts[self._key]()


DELETED = FreeKind("deleted")
DELETE_FOLDER = FreeKind("delete-folder")
CLEANED = FreeKind("cleaned")
RETENTION = FreeKind("retention")
REMOTE = FreeKind("remote")
COMPACTION = FreeKind("compaction")
ORPHANED = FreeKind("orphaned", loses=True)
REJECTED = FreeKind("rejected", loses=True, undo=False)
JOURNAL = FreeKind("journal", loses=True, undo=False)
STRAY = FreeKind("stray", loses=True)

KINDS = (DELETED, DELETE_FOLDER, CLEANED, RETENTION, REMOTE, COMPACTION, ORPHANED, REJECTED, JOURNAL, STRAY)
NAMES = tuple(kind.name for kind in KINDS)
