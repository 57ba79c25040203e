"""Results as metrics, in the text format of Prometheus (version 0.0.4), for the textfile collector of node_exporter.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from klogtool.doctor.answers import Diagnosis, Starts
from klogtool.json_rows import presentable
from klogtool.scrub.scrub_run import ScrubSummary
from klogtool.verify.verification import Summary

FIRST = b"# klogtool "  # how each of our files begins, so that no other file is replaced
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
LABELS_OF_FINDINGS = ("id", "severity")
FOUND = "What was found, or is foreseen."  # one text for a name: the collector refuses several


class Metric(Struct, frozen=True):
    """A gauge. name: without `klogtool_`. values: by the values of its labels."""

    name: str
    about: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]


def gauge(name: str, about: str, value: float) -> Metric:
    """Return a gauge without further labels."""
    return Metric(name, about, (), {(): value})


def run_metrics(ended_ms: int, seconds: float, status: int) -> list[Metric]:
    """Return what there is to say of every run."""
    return [
        gauge("last_run_timestamp_seconds", "When the run ended, in seconds since the epoch.", ended_ms / 1000),
        gauge("last_run_duration_seconds", "How long the run took.", seconds),
        gauge("last_run_exit_status", "The exit status of the run.", status),
    ]


def verify_metrics(summary: Summary, findings: Mapping[tuple[str, ...], float]) -> list[Metric]:
    """Return what verify read and found. findings: how many that count there are of an id and a severity."""
    return [
        gauge("checked_bytes", "Bytes of logs that were read.", summary.bytes),
        gauge("checked_records", "Records that were read, or counted by their headers.", summary.records),
        gauge("checked_partitions", "Partition dirs that were read.", summary.partitions),
        gauge("left_out_partitions", "Partition dirs that were left out.", summary.left_out_partitions),
        Metric("findings", FOUND, LABELS_OF_FINDINGS, findings),
    ]


def scrub_metrics(summary: ScrubSummary, ended_ms: int) -> list[Metric]:
    """Return what scrub read, what is left, and what it knows of all segments that are there."""
    oldest_ms = ended_ms if summary.oldest_unread_ms is None else summary.oldest_unread_ms
    standing: dict[tuple[str, ...], float] = {
        (kind.value, kind.row.severity.value): count for kind, count in summary.standing.items()
    }
    return [
        gauge("checked_bytes", "Bytes of logs that were read.", summary.bytes),
        gauge("closed_segments", "Closed segments that a broker has flushed.", summary.segments),
        gauge("checked_segments", "Segments that were read.", summary.checked),
        gauge("due_segments", "Segments that are due, and were not read for want of time.", summary.due),
        gauge(
            "oldest_unchecked_seconds",
            "For how long nobody has checked the bytes that were not checked for longest.",
            max(0, ended_ms - oldest_ms) / 1000,
        ),
        Metric("findings", FOUND, LABELS_OF_FINDINGS, standing),
    ]


def doctor_metrics(diagnosis: Diagnosis) -> list[Metric]:
    """Return whether a start is foreseen, and what is ahead."""
    every = [one for trouble in diagnosis.troubles for one in trouble.ahead]
    ahead = Counter[tuple[str, ...]]((one.what.value, one.severity.value) for one in every)
    verdicts: dict[tuple[str, ...], float] = {(starts.value,): float(starts is diagnosis.starts) for starts in Starts}
    return [
        Metric("start", "What a start would come to: 1 for that verdict, 0 for the others.", ("verdict",), verdicts),
        gauge("partitions", "Partition dirs of the log dirs.", len(diagnosis.prospects)),
        Metric("findings", FOUND, LABELS_OF_FINDINGS, ahead),
    ]


def metrics_text(command: str, paths: Sequence[str], metrics: Iterable[Metric]) -> str:
    """Return the file. Each metric has the labels `command` and `paths`: the collector joins several files."""
    return "".join(_lines({"command": command, "paths": " ".join(paths)}, metrics))


def _lines(common: Mapping[str, str], metrics: Iterable[Metric]) -> Iterator[str]:
    yield f"{FIRST.decode()}{common['command']}\n"
    for metric in metrics:
        yield f"# HELP klogtool_{metric.name} {metric.about}\n# TYPE klogtool_{metric.name} gauge\n"
        for values, value in sorted(metric.values.items()):
            labels = {**common, **dict(zip(metric.labels, values, strict=True))}
            inside = ",".join(f'{name}="{presentable(text).translate(_ESCAPES)}"' for name, text in labels.items())
            yield f"klogtool_{metric.name}{{{inside}}} {value!r}\n"
