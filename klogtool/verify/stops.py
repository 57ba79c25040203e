"""What keeps a broker from its logs: it does not start at all, or takes a log dir offline. With Kafka's exception.

LogManager.loadLogs decides by the exception: an IOException, or a KafkaStorageException caused by one, takes the log
dir offline; any other exception, of a single partition, ends the process.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.verify.causes import FindingCause

COSTS_THE_LOG_DIR = (
    "KafkaStorageException",
    "IOException",
    # Subclasses of IOException.
    "FileSystemException",
    "FileNotFoundException",
    "NoSuchFileException",
)


class StopOutcome(Enum):
    """What a broker does: it ends; it continues without the log dir; it continues, and serves no partition of the log
    dir."""

    REFUSES = "refuses"
    OFFLINE = "offline"
    UNSERVED = "unserved"


class Stop(Struct, frozen=True):
    """A broker stops: the outcome, and the class and message of the exception that it logs.

    is_exit: the exception takes a log dir offline, and the broker then ends because it needs that log dir; no exception
    ends it.
    """

    outcome: StopOutcome
    kafka_class: str
    message: str
    is_exit: bool = False

    @property
    def is_fatal(self) -> bool:
        """Return whether the broker's process ends."""
        return self.outcome is StopOutcome.REFUSES

    def ending_the_broker(self) -> Stop:
        """Return the stop in the log dir that holds the cluster's metadata: without it a broker ends."""
        return Stop(StopOutcome.REFUSES, self.kafka_class, self.message, is_exit=True)


def refuses(kafka_class: str, message: str) -> Stop:
    """Return that the process ends."""
    return Stop(StopOutcome.REFUSES, kafka_class, message)


def offline(kafka_class: str, message: str) -> Stop:
    """Return that the log dir goes offline."""
    return Stop(StopOutcome.OFFLINE, kafka_class, message)


def stop_of(error: KlogError) -> Stop:
    """Return what an error means in loading a partition, or a file of the log dir's root."""
    kafka_class = error.kafka_class or COSTS_THE_LOG_DIR[0]
    outcome = StopOutcome.OFFLINE if kafka_class in COSTS_THE_LOG_DIR else StopOutcome.REFUSES
    return Stop(outcome, kafka_class, error.kafka_message or error.reason)


def reason_of_stop(error: KlogError) -> Reason:
    """Return what such an error is, and what a broker does then."""
    is_offline = stop_of(error).outcome is StopOutcome.OFFLINE
    cause = FindingCause.OFFLINE_BY if is_offline else FindingCause.NO_START_BY
    return cause(wrong=error.reason, kafka_class=str(error.kafka_class))
