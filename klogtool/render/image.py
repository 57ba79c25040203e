"""The answer of image, as text and as a row."""

from __future__ import annotations

from typing import Any

from klogtool.disk.image import Places, Written
from klogtool.escape import joined
from klogtool.plans.image import ImagePlan
from klogtool.plans.image_names import TopicNames
from klogtool.render.counts import count_text

MOST_NAMED = 10  # paths in one list of the text


def image_row(plan: ImagePlan, names: TopicNames, places: Places, written: Written) -> dict[str, Any]:
    """Return the answer. Paths are those of the originals."""
    return {
        "type": "image",
        "path": plan.path,
        "output": places.output,
        "files": written.files,
        "bytes": written.bytes,
        "kept_bytes": written.kept_bytes,
        "names": {"mapped": names.are_mapped, "topics": len(names.names), "map": places.names},
        "pack": None if places.pack is None else {"path": places.pack, "bytes": written.packed_bytes},
        "blank": plan.blank,
        "left_out": _reasons(plan.left_out),
        "unread": _reasons(written.unread),
    }


def image_text(plan: ImagePlan, names: TopicNames, places: Places, written: Written) -> str:
    """Return the same for people."""
    lines = [
        f"{places.output}: {count_text(written.files, 'file')} of {written.bytes:,} bytes, "
        f"{written.kept_bytes:,} bytes on disk"
    ]
    if places.pack is not None:
        lines.append(f"{places.pack}: the same, packed: {written.packed_bytes:,} bytes")
    if names.are_mapped:
        lines.append(
            f"{count_text(len(names.names), 'topic')} got other names. "
            f"{places.names} says which is which: keep this file to yourself."
        )
    else:
        lines.append("Topics keep their names.")
    lines += _list_text("only the size is in the image: not a file of Kafka", [(path, "") for path in plan.blank])
    lines += _list_text("not in the image", plan.left_out)
    lines += _list_text("only the size is in the image: not read", written.unread)
    lines.append(
        "Hosts in meta.properties, quorum-state and control records stay, and so do names of files and folders "
        "that are not Kafka's."
    )
    return joined(lines)


def _list_text(what: str, found: Any) -> list[str]:
    shown = [f"{path}: {what}" + (f" ({why})" if why else "") for path, why in found[:MOST_NAMED]]
    more = len(found) - MOST_NAMED
    return [*shown, f"... and {more} more: {what}"] if more > 0 else shown


def _reasons(found: Any) -> list[dict[str, str]]:
    return [{"path": path, "reason": why} for path, why in found]
