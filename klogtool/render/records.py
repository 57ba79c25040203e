"""What is asked to be shown of records; shared by the text, by the kernel and by the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# (offset, key, value) -> the texts behind ` key: ` and ` payload: `, None for a piece that is not printed
Decoder = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """deep: records, not only batches. print_data: keys and values too, through the decoder (None: as strings)."""

    deep: bool = False
    print_data: bool = False
    skip_metadata: bool = False
    decoder: Decoder | None = None
