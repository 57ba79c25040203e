"""A broker starts on a metadata log dir in which something is no file, and does what tests/doctor/metadata_files.py
says: `klogtool doctor` and `klogtool quorum` are held to that."""

from __future__ import annotations

import pytest

from .brokers import a_broker
from .test_brokers_as_the_doctor_said import a_place, log_dirs_of, started

from metadata_files import CASES, CUT, STARTS, put  # isort: skip
from sampling import chance  # isort: skip
from startup import SCENARIOS  # isort: skip

pytestmark = [pytest.mark.kafka, pytest.mark.shared, pytest.mark.slow]
NEVER_UP = [(name, kind) for name, kind in CASES if kind == "a FIFO"]  # the wait for it is long
SOME = chance("metadata files").sample([case for case in CASES if case not in NEVER_UP], 2)


@pytest.mark.parametrize(
    ("name", "kind"), [case if case in SOME else pytest.param(*case, marks=pytest.mark.nightly) for case in CASES]
)
def test_a_broker_comes_up_or_does_not(name: str, kind: str) -> None:
    with a_place() as place:
        disks = log_dirs_of("4.3.1", place)
        put(disks, name, kind)
        config = {"log.dirs": f"{disks / 'd0'},{disks / 'd1'}"}
        with a_broker("4.3.1", place / "work", log_dir=disks / "d0", metadata_in_log_dir=True, config=config) as broker:
            seen = started(broker, disks, SCENARIOS["2 clean"], lambda _: True)
    assert seen.is_up is ((name, kind) in STARTS | CUT), seen.said[-3000:]
