"""klogtool fleet metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

import click
from msgspec import Struct
from msgspec.structs import replace

from klogtool import clock
from klogtool.broker.circumstances import Sections
from klogtool.broker.config import check_names
from klogtool.broker.releases import REFERENCE, Release
from klogtool.cli import commands, options
from klogtool.cli.question_options import check_config, config_file, question_options
from klogtool.cli.show import Screen, Show
from klogtool.cli.status import DONE, FOUND
from klogtool.disk.output import write_folder
from klogtool.fleet.framed import CollectedFiles
from klogtool.fleet.metadata import Wishes, rebuild
from klogtool.fleet.metadata_records import snapshot_bytes, snapshot_name
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.kraft_snapshot import Voter
from klogtool.parameters import Unit, parameter
from klogtool.quorum.new_voters import parse_voters
from klogtool.render.fleet_metadata import metadata_row, metadata_text

COMMAND = "fleet metadata"
_FEATURE, _LEVEL = re.compile(r"[a-z0-9.]{1,249}"), re.compile(r"[0-9]{1,5}")
MOST_LEVEL = 32767


def _levels(values: tuple[str, ...]) -> dict[str, int]:
    levels = {}
    for name, text in options.pairs(values, "NAME=LEVEL").items():
        if _LEVEL.fullmatch(text) is None or int(text) > MOST_LEVEL or _FEATURE.fullmatch(name) is None:
            raise click.BadParameter(f"'{name}={text}' is no level of a feature.")
        levels[name] = int(text)
    return levels


def _ids(values: tuple[str, ...]) -> dict[str, str]:
    return {topic: options.topic_id(text) for topic, text in options.pairs(values, "TOPIC=ID").items()}


def _topic_configs(values: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Parse each TOPIC:KEY=VALUE."""
    settings: dict[str, dict[str, str]] = {}
    for value in values:
        topic, colon, pair = value.partition(":")
        key, equals, text = pair.partition("=")
        if not (topic and colon and equals):
            raise click.BadParameter(f"'{value}' is not TOPIC:KEY=VALUE.")
        if any("\ud800" <= char <= "\udfff" for char in text):  # bytes of the command line that Kafka could not write
            raise click.BadParameter(f"'{value}' is not UTF-8.")
        settings.setdefault(topic, {})[key] = text
    for of_topic in settings.values():
        check_config(of_topic, check_names)
    return settings


def _file_of_topics(path: str) -> Sections:
    """Parse a file whose settings are all in sections of topics."""
    sections = config_file(path)
    if any(pattern is None and settings for pattern, settings in sections):
        raise click.BadParameter("every setting must be in a section [topic] or [pattern*].")
    return tuple((pattern, settings) for pattern, settings in sections if pattern is not None)


def _voters(text: str) -> tuple[Voter, ...]:
    """Parse ID@HOST:PORT:DIRECTORY-ID,... as kafka-storage format does."""
    try:
        return parse_voters(text, with_directories=True)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


class MetadataQuestion(Struct, frozen=True, kw_only=True):
    """What the user knows, and where the snapshot goes. now: ms."""

    output: Annotated[
        str | None, parameter("Write the snapshot to this folder. It must be new or empty.", Unit.FOLDER)
    ] = None
    kafka: Annotated[Release, parameter("Do as this release of Kafka does.", Unit.RELEASE)] = REFERENCE
    settings: Annotated[
        Mapping[str, Mapping[str, str]],
        parameter(
            "Set a config of a topic. Repeatable.",
            Unit.SETTINGS,
            option="topic-config",
            metavar="TOPIC:KEY=VALUE",
            parse=_topic_configs,
        ),
    ] = {}
    sections: Annotated[
        Sections,
        parameter(
            "Read settings of topics from a file with sections [topic] or [pattern*].",
            Unit.SETTINGS_FILE,
            option="config-file",
            parse=_file_of_topics,
        ),
    ] = ()
    features: Annotated[
        Mapping[str, int],
        parameter(
            "Set the level of a feature, such as metadata.version. Repeatable.",
            option="feature",
            metavar="NAME=LEVEL",
            parse=_levels,
        ),
    ] = {}
    topic_ids: Annotated[
        Mapping[str, str],
        parameter(
            "Which id to take, where a topic has several. Repeatable.",
            Unit.TOPIC_ID,
            option="topic-id",
            metavar="TOPIC=ID",
            parse=_ids,
        ),
    ] = {}
    next_producer_id: Annotated[
        int | None,
        parameter(
            "The next producer id to give.  [default: above all that a cluster can have given]",
            parse=options.Number(0, MAX_LONG),
        ),
    ] = None
    controller_listener: Annotated[
        str, parameter("The listener of --initial-controllers.", Unit.TEXT, metavar="NAME")
    ] = "CONTROLLER"
    voters: Annotated[
        tuple[Voter, ...],
        parameter(
            "For a dynamic quorum: its controllers, as kafka-storage format takes them.",
            Unit.KINDS,
            option="initial-controllers",
            metavar="ID@HOST:PORT:DIR-ID,...",
            parse=_voters,
        ),
    ] = ()
    adopt_stray: Annotated[bool, parameter("Take folders that a broker has renamed to -stray, too.")] = False
    no_hold: Annotated[bool, parameter("Do not set retention.ms=-1 where the real value is unknown.")] = False
    rebuild_anyway: Annotated[bool, parameter("Build it even if a broker still has __cluster_metadata.")] = False
    now: Annotated[int | None, parameter("The time of the snapshot.  [default: the clock]", Unit.TIME)] = None

    def wishes(self, now_ms: int) -> Wishes:
        """Return what is wished of the snapshot."""
        return Wishes(
            now_ms=now_ms,
            release=self.kafka,
            settings=self.settings,
            sections=self.sections,
            features=self.features,
            topic_ids=self.topic_ids,
            voters=tuple(
                replace(voter, endpoints=tuple(replace(one, name=self.controller_listener) for one in voter.endpoints))
                for voter in self.voters
            ),
            hold=not self.no_hold,
            adopt_stray=self.adopt_stray,
            rebuild_anyway=self.rebuild_anyway,
            next_producer_id=self.next_producer_id,
        )


@commands.command("metadata")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@question_options(MetadataQuestion)
@options.screen()
def command(files: tuple[str, ...], question: MetadataQuestion, screen: Screen) -> int:
    """Rebuild a lost __cluster_metadata from the brokers' disks: when all controllers are gone.

    FILE: what `fleet collect` wrote on each broker that will start again. The snapshot has the topics with their old
    ids, partitions, replicas and leader epochs, so brokers keep their data instead of renaming it to -stray. Look
    first whether any broker or controller still has a folder __cluster_metadata-0: it knows more.

    No disk knows ACLs, quotas, users and settings of topics; the answer lists what is missing, and what was chosen. No
    record is deleted by time or size until you set the retention of a topic again (--no-hold: Kafka's defaults apply).

    \b
    Examples:
      klogtool fleet metadata *.klog
      klogtool fleet metadata *.klog --output rebuilt

    Exit status: 0 done; 1 a partition has no copy on any disk, and begins empty; 2 wrong usage, no such path; 3
    refused, nothing written: files of different clusters, or a choice that is yours; 4 could not go on.
    """
    now_ms = clock.now_ms() if question.now is None else question.now
    rebuilt = rebuild(list(map(CollectedFiles().read, files)), question.wishes(now_ms))
    snapshot, output = snapshot_bytes(rebuilt, now_ms), question.output
    if output is not None:
        write_folder(output, {snapshot_name(rebuilt): (snapshot,)}, files[0])
    show = Show(COMMAND, screen)
    show.row(metadata_row(rebuilt, question.kafka, output, len(snapshot)))
    show.text(metadata_text(rebuilt, output, len(snapshot)))
    return FOUND if any(one.is_new for topic in rebuilt.topics for one in topic.partitions) else DONE
