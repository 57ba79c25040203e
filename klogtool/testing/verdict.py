"""broker_would: what a broker's start would do to log dirs, as `klogtool doctor` says it."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Unpack

from msgspec.structs import replace

from klogtool.doctor.answers import Ahead, Diagnosis, Option, Prospect, Starts, What
from klogtool.doctor.rehearsal import Examination, examine
from klogtool.errors import KlogError
from klogtool.log.log_dirs import find_log_dir_around, is_log_dir
from klogtool.objects import circumstances_of
from klogtool.render.doctor import diagnosis_text, headline
from klogtool.render.words import words
from klogtool.testing.known import KnownArguments

_MOST_NAMED = 3  # in one line


def broker_would(*log_dirs: str | os.PathLike[str], **known: Unpack[KnownArguments]) -> Verdict:
    """Return what a broker's start would do to its log dirs. Nothing is written. A partition dir stands for the log dir
    that contains it.

    known: what a broker would know: `kafka="3.9.2"` asks another release. Raises KlogError for a
    path that is no log dir.
    """
    paths = list(dict.fromkeys(_log_dir_around(os.path.abspath(os.fspath(path))) for path in log_dirs))
    if not paths:
        raise KlogError("no log dir is given")
    return Verdict(examine(paths, Examination(circumstances_of(known), jobs=1)))


class Verdict:
    """What a broker's start would do. Its text is what `klogtool doctor` prints. A failed assertion shows it in a line.

    diagnosis: all of the answer.
    """

    def __init__(self, diagnosis: Diagnosis) -> None:
        self.diagnosis = diagnosis

    @property
    def starts(self) -> bool:
        """Whether the broker starts, whatever it loses."""
        return self.diagnosis.starts is not Starts.REFUSES

    @property
    def loses_nothing(self) -> bool:
        """Whether the broker starts, and neither loses nor hides data."""
        return self.diagnosis.starts is Starts.YES

    @property
    def is_well(self) -> bool:
        """Whether there is nothing to report at all."""
        return self.diagnosis.is_silent

    @property
    def lost_records(self) -> int:
        """How many records the start loses, as far as headers count them."""
        return self.diagnosis.lost_records

    @property
    def ahead(self) -> tuple[Ahead, ...]:
        """Everything that the start does or shows: `what`, `path`, `detail`, `first_offset`, `lost_records`, ..."""
        return tuple(replace(point, detail=words(point.detail)) for point in self.diagnosis.points)

    @property
    def does(self) -> Collection[str]:
        """The kinds of what is ahead, by their names in docs/doctor.md: {"truncated", "stray"}."""
        return {point.what.value for point in self.ahead}

    @property
    def refusals(self) -> list[str]:
        """Why the broker does not start: the class of Kafka's exception and its message, or a sentence."""
        return [_refusal(point) for point in self.ahead if point.what in (What.REFUSES, What.OFFLINE)]

    @property
    def options(self) -> tuple[Option, ...]:
        """Ways out: `title`, `command`, `lost_records`, `strategy`."""
        return tuple(
            replace(option, title=words(option.title), command=words(option.command), price=words(option.price))
            for trouble in self.diagnosis.troubles
            for option in trouble.options
        )

    def partition(self, name: str) -> Prospect:
        """Return what the start does to a partition dir: `log_end_offset`, `work.name`, ... Raises KeyError for a name
        that no log dir has."""
        for prospect in self.diagnosis.prospects:
            if os.path.basename(prospect.path) == name:
                return prospect
        raise KeyError(name)

    def lost_in(self, name: str) -> int:
        """Return how many records of a partition dir the start loses. Raises KeyError as `partition`."""
        path = self.partition(name).path
        return sum(point.lost_records for point in self.ahead if point.path == path)

    def __str__(self) -> str:
        return diagnosis_text(self.diagnosis)

    def __repr__(self) -> str:
        named = [f"{os.path.basename(point.path)} {point.what.value}" for point in self.ahead]
        more = f", and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        return f"<{headline(self.diagnosis)} {', '.join(named[:_MOST_NAMED])}{more}".rstrip() + ">"


def _refusal(point: Ahead) -> str:
    return words(point.detail) if point.stop is None else f"{point.stop.kafka_class}: {point.stop.message}"


def _log_dir_around(path: str) -> str:
    return path if is_log_dir(path) else find_log_dir_around(path) or path
