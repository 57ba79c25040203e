"""The answer of image, as text and as a row."""

from __future__ import annotations

from typing import Any

from klogtool.disk.image import ImagePlaces, WrittenImage
from klogtool.escape import joined
from klogtool.plans.image import ImagePlan
from klogtool.plans.image_names import TopicNames
from klogtool.render.counts import count_text

MOST_NAMED = 10  # paths in one list of the text


def image_row(plan: ImagePlan, names: TopicNames, places: ImagePlaces, written: WrittenImage) -> dict[str, object]:
    """Return the answer. Paths are those of the originals."""
    return {
        "type": "image",
        "path": plan.path,
        "output": places.output,
        "files": written.files,
        "bytes": written.bytes,
        "kept_bytes": written.kept_bytes,
        "names": {
            "mapped": names.are_mapped,
            "topics": len(names.names),
            "others": len(names.others),
            "map": places.names,
        },
        "pack": None if places.pack is None else {"path": places.pack, "bytes": written.packed_bytes},
        "blank": plan.blank,
        "holes": [{"path": path, "bytes": size} for path, size in written.holes.items()],
        "left_out": _reasons(plan.left_out),
        "unread": _reasons(written.unread),
    }


def image_text(plan: ImagePlan, names: TopicNames, places: ImagePlaces, written: WrittenImage) -> str:
    """Return what the image has and lacks, for people."""
    lines = [
        f"{places.output}: {count_text(written.files, 'file')} of {written.bytes:,} bytes, "
        f"{written.kept_bytes:,} bytes on disk"
    ]
    if places.pack is not None:
        lines.append(f"{places.pack}: the same, packed: {written.packed_bytes:,} bytes")
    if names.are_mapped:
        lines.append(
            f"{count_text(len(names.names), 'topic')} and "
            f"{count_text(len(names.others), 'other file or folder', 'other files or folders')} got other names. "
            f"{places.names} says which is which: keep this file to yourself."
        )
    else:
        lines.append("Topics keep their names.")
    lines += _list_text("only the size is in the image: not a file of Kafka", [(path, "") for path in plan.blank])
    lines += _list_text("holes in the image", [(path, _hole_text(size)) for path, size in written.holes.items()])
    lines += _list_text("not in the image", plan.left_out)
    lines += _list_text("only the size is in the image: not read", written.unread)
    if written.holes:
        lines.append("Answers about files with holes can have other numbers and words than those about the original.")
    lines.append("Hosts in control records of __cluster_metadata stay, and so do the cluster id and the node id.")
    return joined(lines)


def _hole_text(size: int) -> str:
    return f"klogtool cannot read {count_text(size, 'byte')} as this kind of file"


def _list_text(what: str, result: Any) -> list[str]:
    shown = [f"{path}: {what}" + (f" ({why})" if why else "") for path, why in result[:MOST_NAMED]]
    more = len(result) - MOST_NAMED
    return [*shown, f"... and {more} more: {what}"] if more > 0 else shown


def _reasons(result: Any) -> list[dict[str, str]]:
    return [{"path": path, "reason": why} for path, why in result]
