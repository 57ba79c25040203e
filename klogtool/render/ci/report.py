"""What the reports for CI systems have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from klogtool.escape import escaped
from klogtool.render.findings import explained_text, left_out_line, where_texts
from klogtool.verify.findings import Finding, Severity
from klogtool.verify.fingerprints import Fingerprints, relative_path
from klogtool.verify.verification import PartitionDone, Summary
from klogtool.verify.weighing import NotCounted, Weighed

CHECKOUTS = ("CI_PROJECT_DIR", "GITHUB_WORKSPACE")  # where GitLab and GitHub say that the repository is


class Ending(Struct, frozen=True):
    """How a run ended. closing: its last line, for people. cut_short: why it did not come to its end."""

    status: int
    closing: str
    summary: Summary | None = None
    not_counted: NotCounted | None = None
    cut_short: str | None = None

    @property
    def left_out(self) -> str | None:
        """The line that says what was not read; None if nothing was left out."""
        if self.summary is None or self.summary.complete:
            return None
        return left_out_line(self.summary, () if self.not_counted is None else self.not_counted.excluded_by)


class Report:
    """A report as it grows; this one is empty. Each method returns text to write; lines end in a line feed.

    folder: the real path of the repository, to which names of files are relative. notes: whether notes are in it.
    """

    def __init__(self, folder: str, *, notes: bool) -> None:
        self._folder, self._notes = folder, notes
        self._fingerprint = Fingerprints(folder).of

    def _name(self, path: str) -> str:
        return relative_path(path, self._folder)

    def _has(self, weighed: Weighed) -> bool:
        """Return whether a finding counts: it is not known, and no note that nobody asked for."""
        return not weighed.is_known and (self._notes or weighed.finding.severity is not Severity.INFO)

    def begin(self) -> str:
        """Return the beginning."""
        return ""

    def partition(self, done: PartitionDone) -> str:
        """Return the text for a partition, whose findings follow."""
        return ""

    def finding(self, weighed: Weighed) -> str:
        """Return the text for a finding."""
        return ""

    def end(self, ending: Ending) -> str:
        """Return the end; a run that was cut short has one too."""
        return ""


def checkout_folder(environment: Mapping[str, str], working_directory: str) -> str:
    """Return the folder to which paths in a report are relative: the checkout of a CI job if the working directory lies
    in it, else the working directory."""
    place = os.path.realpath(working_directory)
    for name in CHECKOUTS:
        folder = os.path.realpath(environment[name]) if environment.get(name) else None
        if folder is not None and (place == folder or place.startswith(folder.rstrip(os.sep) + os.sep)):
            return folder
    return place


def message_text(finding: Finding) -> str:
    """Return a finding in a few sentences on one line: what is wrong, where, and what to do."""
    where = ", ".join(where_texts(finding))
    text = f"{where}: {explained_text(finding)}" if where else explained_text(finding)
    return escaped(text if finding.cure is None else f"{text} To do: {finding.cure}")


def one_line_of(texts: Sequence[str]) -> str:
    """Return sentences as one line."""
    return escaped(" ".join(f"{text}." for text in texts))
