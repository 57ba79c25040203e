"""klogtool image."""

from __future__ import annotations

import os
from typing import Annotated

import click
from msgspec import Struct

from klogtool.cli import commands, options
from klogtool.cli.gentle_reading import begin_reading, gently
from klogtool.cli.question_options import question_options
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import COULD_NOT, DONE
from klogtool.disk.image import ImagePlaces, check_places, find_names, write_image
from klogtool.log.opened import open_path
from klogtool.parameters import Unit, parameter
from klogtool.plans.image import plan_image
from klogtool.render.image import image_row, image_text
from klogtool.render.progress_bar import Bar

COMMAND = "image"


class ImageQuestion(Struct, frozen=True, kw_only=True):
    """Where an image goes, and whether names stay."""

    output: Annotated[
        str,
        parameter("Write the image to this folder. It must be new or empty, and not in a log dir.", Unit.FOLDER),
    ]
    keep_names: Annotated[bool, parameter("Keep the names of topics.")] = False
    names: Annotated[
        str | None,
        parameter(
            "The map of names. If the file exists, its names are used again.  [default: DIR.names.json]", Unit.FILE
        ),
    ] = None
    pack: Annotated[str | None, parameter("Also pack the image, into this .tar.gz file.", Unit.FILE)] = None

    def places(self) -> ImagePlaces:
        """Return where everything goes."""
        names = self.names or self.output.rstrip(os.sep) + ".names.json"
        return ImagePlaces(self.output, None if self.keep_names else names, self.pack)


@commands.command(COMMAND)
@click.argument("path", metavar="LOGDIR")
@question_options(ImageQuestion)
@options.screen()
@gently
def command(path: str, question: ImageQuestion, screen: Screen) -> int:
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
    if question.keep_names and question.names is not None:
        raise click.UsageError("--names does not go with --keep-names.")
    places = question.places()
    open_path(path)
    check_places(places, path)
    begin_reading([path], quiet=screen.quiet)
    names = find_names(places.names)
    plan = plan_image(path, names)
    size = sum(file.size for file in plan.files)
    with Bar(size, wanted=screen.wants_bar) as bar:
        written = write_image(plan, names, places, on_progress=bar.advance)
    show = Show(COMMAND, screen)
    show.row(image_row(plan, names, places, written))
    show.text(image_text(plan, names, places, written))
    return COULD_NOT if written.unread else DONE
