"""--config and --config-file: a name that is misspelt is not a setting that is left out without a word."""

from __future__ import annotations

import pathlib

import pytest
from running import FIXTURES, Done, run_here

T_0 = FIXTURES / "leader-epochs" / "logdir" / "t-0"


def asked(tmp_path: pathlib.Path, text: str) -> Done:
    (tmp_path / "settings").write_text(text)
    return run_here(["retain", str(T_0), "--config-file", "settings", "--now", "1700000000000"], tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[t]\nretention.mss=1\n", "settings: not a log config: retention.mss (did you mean retention.ms?)"),
        ("[t]\nretention.time.ms=1\n", "not a log config: retention.time.ms (did you mean retention.ms?)"),
        ("[other]\nquite.another=1\n", "not a log config: quite.another"),
        ("log.retention.hour=1\n", "not a log config: log.retention.hour (did you mean log.retention.hours?)"),
        ("retension.ms=1\n[t]\nretention.ms=-1\n", "not a log config: retension.ms (did you mean retention.ms?)"),
        ("[t]\nretention.ms=soon\n", "settings: not a value of retention.ms: 'soon'"),
    ],
)
def test_a_name_that_is_misspelt_in_a_file_is_refused(tmp_path: pathlib.Path, text: str, told: str) -> None:
    done = asked(tmp_path, text)
    assert (done.status, done.out) == (2, b"")
    assert told in done.err


def test_a_brokers_own_settings_are_left_alone(tmp_path: pathlib.Path) -> None:
    """A server.properties is full of them, and some are rather like those of a log."""
    text = """broker.id=1
listener.name.internal.ssl.keystore.location=/x
log.dirs=/data
log.message.timestamp.difference.max.ms=5
log.retention.check.interval.ms=300000
offsets.retention.minutes=10080
offsets.topic.segment.bytes=104857600
transaction.state.log.segment.bytes=104857600
[t]
min.insync.replicas=2
unclean.leader.election.enable=false
retention.ms=-1
"""
    done = asked(tmp_path, text)
    assert done.status == 0, done.err
    assert "retention.ms: -1, by --config-file" in done.out.decode()


@pytest.mark.parametrize("name", ["log.dir", "log.dirs", "metadata.log.dir"])
@pytest.mark.parametrize("text", [r"/a\u0000b", r"/\ud800"])
def test_a_log_dir_that_no_system_can_have(tmp_path: pathlib.Path, name: str, text: str) -> None:
    done = asked(tmp_path, f"{name}={text}\n")
    assert done.status == 2
    assert "settings: log dir '/" in done.err
    assert "this text cannot be a path" in done.err
