"""The answer of image, as text and as a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from klogtool.disk.image import ImagePlaces, WrittenImage
from klogtool.escape import as_paragraph
from klogtool.plans.image import ImagePlan
from klogtool.plans.image_names import TopicNames
from klogtool.render.words import count_text

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


@as_paragraph
def image_text(plan: ImagePlan, names: TopicNames, places: ImagePlaces, written: WrittenImage) -> Iterator[str]:
    """Return what the image has and lacks, for people."""
    size = f"{count_text(written.files, 'file')} of {count_text(written.bytes, 'byte')}"
    yield f"{places.output}: {size}, {count_text(written.kept_bytes, 'byte')} on disk"
    if places.pack is not None:
        yield f"{places.pack}: the same, packed: {written.packed_bytes:,} bytes"
    if names.are_mapped:
        yield (
            f"{count_text(len(names.names), 'topic')} and "
            f"{count_text(len(names.others), 'other file or folder', 'other files or folders')} got other names. "
            f"{places.names} says which is which: keep this file to yourself."
        )
    else:
        yield "Topics keep their names."
    hole = "klogtool cannot read {} as this kind of file"
    holes = [(path, hole.format(count_text(size, "byte"))) for path, size in written.holes.items()]
    yield from _list("only the size is in the image: not a file of Kafka", [(path, "") for path in plan.blank])
    yield from _list("holes in the image", holes)
    yield from _list("not in the image", plan.left_out)
    yield from _list("only the size is in the image: not read", written.unread)
    if written.holes:
        yield "Answers about files with holes can have other numbers and words than those about the original."
    yield "Hosts in control records of __cluster_metadata stay, and so do the cluster id and the node id."


def _list(what: str, result: Any) -> Iterator[str]:
    yield from (f"{path}: {what}" + (f" ({why})" if why else "") for path, why in result[:MOST_NAMED])
    if len(result) > MOST_NAMED:
        yield f"... and {len(result) - MOST_NAMED} more: {what}"


def _reasons(result: Any) -> list[dict[str, str]]:
    return [{"path": path, "reason": why} for path, why in result]
