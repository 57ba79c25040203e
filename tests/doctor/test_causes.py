"""Each cause of the doctor has its sentence, and each message of Kafka in its table is used."""

from __future__ import annotations

import pathlib
import socket

import pytest

from klogtool.causes import Cause, sentences, words
from klogtool.doctor import causes, exceptions
from klogtool.doctor.answers import Work
from klogtool.doctor.running_broker import fails_at_read
from klogtool.quorum.election import ElectionCause

CLASSES = [
    each for each in vars(causes).values() if isinstance(each, type) and issubclass(each, Cause) and each != Cause
]
HERE = pathlib.Path(exceptions.__file__).parent


@pytest.mark.parametrize("kind", [*CLASSES, ElectionCause, Work])
def test_each_cause_has_its_sentence(kind: type[Cause]) -> None:
    assert set(sentences()[kind.__name__]) == {cause.name for cause in kind}


def test_each_message_of_kafka_is_used() -> None:
    code = "".join(path.read_text() for path in HERE.glob("*.py"))
    assert [name for name in exceptions._rows() if f'"{name}"' not in code] == []


def test_offsets_in_a_few_words() -> None:
    ranges = ((1, 1), (3, 1000), (2000, 2000), (4000, 5000), (6000, 7000))
    told = [words(causes.offsets_in(ranges[:count])) for count in (1, 2, 5)]
    assert told == ["offset 1", "offsets 1, 3 to 1,000", "offsets 1, 3 to 1,000, 2,000, ... 7,000"]


def test_the_reason_that_a_socket_cannot_be_opened_is_the_systems(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As java.io.RandomAccessFile has it: `(No such device or address)`."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("00000000000000000000.index")
        with pytest.raises(OSError, match="No such device or address"), open("00000000000000000000.index", "rb"):
            pass
    point = fails_at_read(str(tmp_path / "00000000000000000000.index"), "No such device or address")
    assert point.stop is not None
    assert point.stop.message.endswith(".index (No such device or address)")
