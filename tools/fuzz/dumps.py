"""Options of dump-log to draw from: those that print text."""

from __future__ import annotations

DUMPS: tuple[list[str], ...] = (
    [],
    ["--deep-iteration"],
    ["--print-data-log"],
    ["--print-data-log", "--skip-record-metadata"],
    ["--max-bytes", "700", "--deep-iteration"],
    ["--index-sanity-check"],
    ["--verify-index-only"],
    ["--offsets-decoder"],
    ["--transaction-log-decoder"],
    ["--cluster-metadata-decoder"],
    ["--remote-log-metadata-decoder"],
    ["--share-group-state-decoder"],
    ["--key-decoder-class", "org.apache.kafka.tools.api.LongDecoder"],
)
