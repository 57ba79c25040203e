"""What keeps a broker from its logs: it does not start at all, or gives up a log dir. With Kafka's exception.

LogManager.loadLogs tells by the exception: an IOException, or a KafkaStorageException that one caused, costs the log
dir; any other one, of a single partition, ends the process.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from klogtool.errors import KlogError

COSTS_THE_LOG_DIR = (
    "KafkaStorageException",
    "IOException",
    # Kinds of IOException.
    "FileSystemException",
    "FileNotFoundException",
    "NoSuchFileException",
)


class Outcome(Enum):
    """What a broker does: ends; goes on without the log dir; goes on, and serves no partition of it."""

    REFUSES = "refuses"
    OFFLINE = "offline"
    UNSERVED = "unserved"


class Stop(Struct, frozen=True):
    """That it does so, and the class and message of the exception that it logs."""

    outcome: Outcome
    kafka_class: str
    message: str


def refuses(kafka_class: str, message: str) -> Stop:
    """The process ends."""
    return Stop(Outcome.REFUSES, kafka_class, message)


def offline(kafka_class: str, message: str) -> Stop:
    """The log dir is given up."""
    return Stop(Outcome.OFFLINE, kafka_class, message)


def stop_of(error: KlogError) -> Stop:
    """What an error means in loading a partition, or a file of the log dir's root."""
    kafka_class = error.kafka_class or COSTS_THE_LOG_DIR[0]
    outcome = Outcome.OFFLINE if kafka_class in COSTS_THE_LOG_DIR else Outcome.REFUSES
    return Stop(outcome, kafka_class, error.kafka_message or error.reason)
