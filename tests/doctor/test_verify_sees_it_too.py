"""What a start refuses, loses or hides is an error to `verify`, too; what it leaves to the doctor stands here."""

from __future__ import annotations

import pathlib

import pytest
from asking_doctor import NOW_MS, wounded
from running import run_here
from startup import SCENARIOS

BY_CONTRACT = "an info by the contract: the folder may be formatted later"
NOT_HERE = "a folder that is not there is no damage of a file; a checkpoint that still has its line is a warning"
RENAMED = "a name that a broker gave: what a start makes of it, the cluster's metadata decides"
OF_RELEASE = "the metadata is sound: whether a release takes it, verify does not ask"
ON_WRITING = "only who writes there, or locks, notices it"
LEFT_TO_DOCTOR = {
    "3 missing in one log dir": BY_CONTRACT,
    "3 missing in all": BY_CONTRACT,
    "4 a snapshot's name that is not UTF-8, and has the newest offset": ON_WRITING,
    "4 absent": NOT_HERE,
    "4 absent, in no log dir, a file where are more": NOT_HERE,
    "4 absent, a file has its name where it is not": NOT_HERE,
    "4 absent, named -stray": RENAMED,
    "4 absent, named -stray in another log dir": RENAMED,
    "4 absent, -stray without an id": RENAMED,
    "4 absent, -stray of an older topic": RENAMED,
    "4 -stray beside a new one": RENAMED,
    "4 -delete beside a new one": RENAMED,
    "4 -delete of a partition that the cluster has": RENAMED,
    "4 -future, alone, elsewhere": RENAMED,
    "4 -future where it is assigned, the partition beside it": RENAMED,
    "9 metadata.version of 3.3": OF_RELEASE,
    "9 metadata.version of a later release": OF_RELEASE,
    "9 share.version of a later release": OF_RELEASE,
    "9 segment.bytes of a topic of 3.9": OF_RELEASE,
    "9 log missing, no snapshot": "the segment's index is an orphan, which is a warning",
    "9 log of 0 bytes, no snapshot": "the indexes have more entries than the log, which is a warning",
    "10 .lock is a link to nowhere": ON_WRITING,
    "10 .lock is a link to nowhere, an open transaction": ON_WRITING,
    "10 the same log dir under two names": NOT_HERE,
    "10 log dir not named": NOT_HERE,
    "11 a folder where leader epochs are written": ON_WRITING,
    "11 a folder where leader epochs are written, beside the metadata": ON_WRITING,
    "11 /dev/full, where high watermarks are written": ON_WRITING,
    "11 a socket, where high watermarks are written": ON_WRITING,
    "11 a socket, .lock": ON_WRITING,
}
# A path that is no log dir is a mistake of who names it.
NO_LOG_DIR = {"10 log dir missing", "10 log dir is empty", "10 log dir is a file"}


@pytest.mark.parametrize("name", [name for name, each in SCENARIOS.items() if each.starts != "yes"])
def test_what_a_start_does_not_survive_is_an_error(tmp_path: pathlib.Path, name: str) -> None:
    scenario = SCENARIOS[name]
    disks = wounded(scenario, tmp_path / "disks")
    done = run_here(["verify", *scenario.log_dirs, "--json", "--now", str(NOW_MS)], disks)
    said = (2, 4) if name in NO_LOG_DIR else (0,) if name in LEFT_TO_DOCTOR else (1,)
    assert done.status in said, done.err


def test_what_is_left_to_the_doctor_is_a_state_that_was_put_to_brokers() -> None:
    assert LEFT_TO_DOCTOR.keys() <= SCENARIOS.keys()
