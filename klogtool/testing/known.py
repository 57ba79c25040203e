"""What a broker would know, as the assertions take it beside any number of paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from klogtool.broker.circumstances import LastStop
from klogtool.broker.releases import Release
from klogtool.format.typed import Moment


class KnownArguments(TypedDict, total=False):
    """The fields of Circumstances. What is not given is read from the log dir's own files.

    They stand here once more because a ParamSpec does not go behind `*paths`; a test holds the two together.
    """

    now_ms: Moment | None
    loaded_at_ms: Moment | None
    config: Mapping[str, str]
    recovery_point: int | None
    log_start_offset: int | None
    high_watermark: int | None
    last_stop: LastStop | None
    kafka: Release
