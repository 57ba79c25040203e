"""Why batches of a copy are not used; see klogtool.causes."""

from __future__ import annotations

from klogtool.causes import Cause, some


class RefusedCause(Cause):
    """Why batches of a copy do not fill a hole."""

    UNDAMAGED, DIVERGES, EPOCH_BELOW, EPOCH_ABOVE, EPOCH_OTHER, OTHER_HISTORY, STARTS_LATER = some(7)
