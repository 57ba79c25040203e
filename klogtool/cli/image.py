"""klogtool image."""

from __future__ import annotations

import os
from typing import Any

import click

from klogtool.cli import commands, options
from klogtool.cli.in_use import note_if_in_use
from klogtool.cli.output import Output
from klogtool.cli.show import header
from klogtool.cli.status import COULD_NOT, DONE
from klogtool.disk.image import Places, check_places, find_names, write_image
from klogtool.json_rows import row_line
from klogtool.log.opened import open_path
from klogtool.plans.image import plan_image
from klogtool.render.image import image_row, image_text
from klogtool.render.progress_bar import Bar, is_drawn

COMMAND = "image"


@commands.command(COMMAND)
@click.argument("path", metavar="LOGDIR")
@click.option(
    "--output",
    required=True,
    type=click.Path(),
    metavar="DIR",
    help="Write the image to this folder. It must be new or empty, and not in a log dir.",
)
@click.option("--keep-names", is_flag=True, help="Keep the names of topics.")
@click.option(
    "--names",
    type=click.Path(),
    metavar="FILE",
    help="The map of names. If the file exists, its names are used again.  [default: DIR.names.json]",
)
@click.option("--pack", type=click.Path(), metavar="FILE", help="Also pack the image, into this .tar.gz file.")
@options.output_format()
@options.quiet
@options.no_progress
@options.debug
def command(path: str, form: str, **chosen: Any) -> int:
    """Copy a log dir or a partition dir without keys and values, for a bug report or for a colleague.

    Headers of batches and files beside the logs stay, so verify, recover, txns, retain and doctor give the
    same answers for the image. Keys and values become zeros; blocks of zeros take no space on disk. Topics get other
    names; a private file, DIR.names.json, says which is which.

    The source is only read. LOGDIR may be in use, but files that change meanwhile can look damaged in the image.

    \b
    Examples:
      klogtool image LOGDIR --output shared
      klogtool image LOGDIR --output shared --pack shared.tar.gz

    Exit status: 0 done; 2 wrong usage, no such path; 3 refused, nothing written; 4 could not go on (there is no image),
    or a file could not be read (the image is complete apart from it).
    """
    if chosen["keep_names"] and chosen["names"] is not None:
        raise click.UsageError("--names does not go with --keep-names.")
    places = _places(chosen)
    open_path(path)
    check_places(places, path)
    if not chosen["quiet"]:
        note_if_in_use([path])
    names = find_names(places.names)
    plan = plan_image(path, names)
    size = sum(file.size for file in plan.files)
    is_wanted = not (chosen["quiet"] or chosen["no_progress"]) and is_drawn()
    with Bar(size, wanted=is_wanted) as bar:
        written = write_image(plan, names, places, on_progress=bar.advance)
    out = Output()
    if form == "json":
        out.line(row_line(header(COMMAND)))
        out.line(row_line(image_row(plan, names, places, written)))
    else:
        out.text(image_text(plan, names, places, written))
    out.flush()
    return COULD_NOT if written.unread else DONE


def _places(chosen: dict[str, Any]) -> Places:
    """Return where everything goes."""
    output = chosen["output"]
    default = output.rstrip(os.sep) + ".names.json"
    return Places(output, None if chosen["keep_names"] else chosen["names"] or default, chosen["pack"])
