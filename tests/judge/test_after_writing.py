"""The judge itself, behind options and commands: what is not as they said is found, what is so is not."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from klogtool.doctor.claims import BrokerClaim, Gone, Lost, OptionClaim, PartitionClaim, WhyUnknown, Witness

from .changes import Change, about_change
from .claims import Claims
from .comparison import Before
from .cures import about_option, about_witness, about_writes
from .records_on_disk import Found
from .truth import Loaded, Reading, Truth, Writing

FOLDER = "d0/t-0"


def found(*offsets: int) -> frozenset[Found]:
    return frozenset(Found(offset, 7 * offset) for offset in offsets)


SERVED = Claims(BrokerClaim(True), "", {}, {FOLDER: PartitionClaim(FOLDER, served=True)})
BEFORE = Before(found(*range(10)), frozenset(), 10, {}, {})


def truth(*served: int) -> Truth:
    return Truth(
        is_up=True, loaded={FOLDER: Loaded(0, 10)}, read={"t-0": Reading(0, 10, found(*served), (), True, None)}
    )


OPTIONS = [
    (OptionClaim(FOLDER, 1, ((0, 9),)), range(10), []),
    (OptionClaim(FOLDER, 1, ((0, 4), (7, 9)), Lost(2, ((5, 6),))), [0, 1, 2, 3, 4, 7, 8, 9], []),
    (OptionClaim(FOLDER, 1, None, Lost(None)), [0, 1], []),
    (OptionClaim(FOLDER, 1, ((0, 9),)), range(9), ["OPTION", "OPTION LOST"]),
    (OptionClaim(FOLDER, 1, ((0, 4),), Lost(5, ((5, 9),))), range(10), ["OPTION"]),
    (OptionClaim(FOLDER, 1, None, Lost(1, ((9, 9),))), range(8), ["OPTION LOST"]),
]


@pytest.mark.parametrize(("claim", "served", "kinds"), OPTIONS)
def test_what_an_option_claims(claim: OptionClaim, served: list[int], kinds: list[str]) -> None:
    assert [one.kind for one in about_option(FOLDER, claim, BEFORE, truth(*served))] == kinds


def test_of_two_records_at_one_offset_only_one_can_be_read() -> None:
    """The other one counts as lost."""
    two = dataclasses.replace(BEFORE, records=BEFORE.records | {Found(3, 99)})
    for lost, kinds in ((1, []), (0, ["OPTION LOST"])):
        claim = OptionClaim(FOLDER, 1, ((0, 9),), Lost(lost, ((3, 3),)))
        assert [one.kind for one in about_option(FOLDER, claim, two, truth(*range(10)))] == kinds


def test_what_a_consumer_gets_before_it_fails_inside_a_batch_need_not_be_promised() -> None:
    claim, failing = OptionClaim(FOLDER, 1, ((0, 4),)), found(*range(5, 10))
    before = dataclasses.replace(BEFORE, records=BEFORE.records - failing, below=failing)
    assert list(about_option(FOLDER, claim, before, truth(*range(7)))) == []


def test_an_option_that_gives_a_folder_another_name_loses_nothing() -> None:
    did = truth()
    did.read["u-0"] = Reading(0, 10, BEFORE.records, (), True, None)
    assert list(about_option(FOLDER, OptionClaim(FOLDER, 1), BEFORE, did)) == []


WRITES = [
    (Writing((10, 11), None), found(*range(12)), 0),
    (Writing((), "TimeoutException"), found(*range(10)), 1),
    (Writing((10, 11), None), found(*range(11)), 1),
    (Writing((10, 11), None), found(*range(5, 12)), 1),
]


@pytest.mark.parametrize(("written", "again", "count"), WRITES)
def test_writes_are_read_and_nothing_goes_by_them(written: Writing, again: frozenset[Found], count: int) -> None:
    did = truth(*range(10))
    did.written["t-0"], did.again["t-0"] = written, Reading(0, 12, again, (), True, None)
    assert len(list(about_writes(SERVED, did))) == count
    warned = msgspec.structs.replace(SERVED, ahead=(("ends-early", FOLDER),))
    unknown = msgspec.structs.replace(SERVED, partitions={FOLDER: PartitionClaim(FOLDER)})
    assert list(about_writes(warned, did)) == list(about_writes(unknown, did)) == []


GONE = PartitionClaim(FOLDER, gone_already=Gone(((10, 19),), (Witness.HIGH_WATERMARK,)))


def witnessed(gone: Gone, option: OptionClaim, before: Before = BEFORE, end: int = 10) -> int:
    """How often the judge finds that a witness is forgotten, if nothing is known afterwards. end: of the log, then."""
    now, then = (
        msgspec.structs.replace(
            SERVED,
            partitions={
                FOLDER: msgspec.structs.replace(GONE, gone_already=each, log_start_offset=0, log_end_offset=end)
            },
        )
        for each in (gone, Gone())
    )
    return len(list(about_witness(FOLDER, option, now, then, before)))


def test_what_shows_how_far_a_log_reached_shows_no_more_of_one_that_reaches_as_far() -> None:
    option = OptionClaim(FOLDER, 1)
    assert [witnessed(GONE.gone_already, option, end=end) for end in (10, 19, 20)] == [1, 1, 0]
    assert witnessed(Gone(((10, 19),), (Witness.INDEX,)), option, end=20) == 1


def test_what_any_witness_shows_is_known_after_an_option() -> None:
    option, shown = OptionClaim(FOLDER, 1), GONE.gone_already
    assert witnessed(shown, option) == 1
    assert witnessed(shown, msgspec.structs.replace(option, erases_witness=True)) == 0
    assert witnessed(shown, msgspec.structs.replace(option, readable=((0, 19),))) == 0
    assert witnessed(Gone(((10, 19),), (Witness.LEADER_EPOCH,)), option) == 0  # the start drops it
    gap = Gone(((3, 4),), (Witness.GAP,))
    assert witnessed(gap, option) == 0  # in damaged bytes
    assert witnessed(gap, option, dataclasses.replace(BEFORE, holes=((3, 4),))) == 1
    perhaps = Gone(None, reason=WhyUnknown.RETENTION, perhaps=((3, 4),))
    assert witnessed(perhaps, option) == 1
    assert witnessed(perhaps, msgspec.structs.replace(option, readable=((0, 19),))) == 0


CHANGES = [
    (Change(FOLDER, "roll", 0, 10), range(10), 0),
    (Change(FOLDER, "roll", None, None), range(10), 0),
    (Change(FOLDER, "truncate", 0, 9, is_truncation=True), range(10), 1),
    (Change(FOLDER, "truncate", 0, 11, is_truncation=True), range(10), 0),
    (Change(FOLDER, "delete-records", 1, 10), range(10), 1),
    (Change(FOLDER, "roll", 0, 10), range(9), 1),
    (Change(FOLDER, "roll", 0, 10), range(11), 1),
    (Change(FOLDER, "compact", 0, 10, is_thinning=True), [0, 9], 0),
    (Change("d1/t-0", "roll", 0, 10), range(10), 1),
]


@pytest.mark.parametrize(("change", "served", "count"), CHANGES)
def test_what_the_plan_of_a_command_said(change: Change, served: list[int], count: int) -> None:
    assert len(list(about_change(change, BEFORE, truth(*served)))) == count
