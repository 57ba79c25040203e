"""The judge itself: it finds a claim that is false, of each kind, and has nothing against one that is true."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
import pytest
from raw_batches import build_batch

from klogtool.doctor.claims import (
    BrokerClaim,
    Gone,
    Hidden,
    HiddenBy,
    LogDirClaim,
    Lost,
    PartitionClaim,
    WhyUnknown,
    Witness,
)
from klogtool.format.batch import Record

from .__main__ import Tally, judged_by
from .cases import Outcome
from .claims import Claims
from .comparison import EPOCHS, Before, Difference, _last_epoch_start, _superseded, before_start, differences
from .cures import _chosen
from .records_on_disk import Found
from .truth import Loaded, Reading, Truth

BROKER = pathlib.Path(__file__).parents[1] / "doctor" / "broker"
FOLDER, LOG = "d0/t-0", "00000000000000000000.log"


def found(*offsets: int) -> frozenset[Found]:
    return frozenset(Found(offset, 7 * offset) for offset in offsets)


# Ten records and five more below the log start; the start cut two of them, and hides one.
BEFORE = Before(found(*range(5, 15)), found(*range(5)), 15, {LOG: 1}, {"high watermark": 20})
TRUE = PartitionClaim(
    "d0/t-0",
    True,
    5,
    13,
    Lost(2, ((13, 14),)),
    Gone(((15, 19),), (Witness.HIGH_WATERMARK,)),
    Hidden(1, ((9, 9),)),
    rewritten=(LOG,),
)


def truth() -> Truth:
    return Truth(
        is_up=True,
        loaded={FOLDER: Loaded(5, 13)},
        read={"t-0": Reading(5, 13, found(5, 6, 7, 8, 10, 11, 12), (), True, None)},
        kept={FOLDER: set(found(*range(13)))},
        files={FOLDER: {LOG: 2}},
    )


def claims(partition: PartitionClaim = TRUE, broker: BrokerClaim | None = None, *, is_online: bool = True) -> Claims:
    log_dirs = {"d0": LogDirClaim("d0", is_online), "d1": LogDirClaim("d1", True)}
    return Claims(broker or BrokerClaim(True), "", log_dirs, {FOLDER: partition})


def kinds(said: Claims, did: Truth) -> list[str]:
    return [difference.kind for difference in differences(said, did, {FOLDER: BEFORE})]


def test_what_is_true_is_not_held_against_anybody() -> None:
    assert kinds(claims(), truth()) == []


FALSE = [
    ("SERVED", {"served": False}),
    ("LOG_START_OFFSET", {"log_start_offset": 0}),
    ("LOG_END_OFFSET", {"log_end_offset": 15}),
    ("LOST", {"lost": Lost(0, ())}),
    ("LOST", {"lost": Lost(3, ((12, 14),))}),
    ("LOST RANGES", {"lost": Lost(2, ((14, 14),))}),
    ("LOST", {"lost": Lost(2, ((10, 14),))}),
    ("GONE", {"gone_already": Gone()}),
    ("GONE", {"gone_already": Gone(((12, 19),))}),
    ("GONE", {"gone_already": Gone(((15, 18),))}),
    ("HIDDEN", {"hidden": Hidden(0, ())}),
    ("HIDDEN", {"hidden": Hidden(2, ((9, 10),))}),
    ("DELETED", {"deleted": (LOG,)}),
    ("REWRITTEN", {"rewritten": ()}),
]


@pytest.mark.parametrize(("kind", "changed"), FALSE)
def test_a_false_claim_about_a_partition_is_found(kind: str, changed: dict[str, object]) -> None:
    assert set(kinds(claims(msgspec.structs.replace(TRUE, **changed)), truth())) == {kind}


@pytest.mark.parametrize(
    "unknown",
    [
        {"served": None},
        {"lost": Lost(None, (), WhyUnknown.NOT_READ)},
        {"hidden": Hidden(None, (), (HiddenBy.NOT_READ,))},
    ],
)
def test_what_is_said_to_be_unknown_is_not_false(unknown: dict[str, object]) -> None:
    assert kinds(claims(msgspec.structs.replace(TRUE, **unknown)), truth()) == []


@pytest.mark.parametrize("epochs", [1, 2], ids=["as it was", "noted"])
def test_what_a_leader_notes_its_epoch_through_is_gone_after_the_start(epochs: int) -> None:
    left = dataclasses.replace(BEFORE, files={**BEFORE.files, EPOCHS: 1, f"{EPOCHS}.tmp": 1})
    did = truth()
    did.files[FOLDER][EPOCHS] = epochs
    found = [each.kind for each in differences(claims(), did, {FOLDER: left})]
    assert found == (["DELETED"] if epochs == 1 else [])


NOT_LOADED = {
    "log_start_offset": None,
    "log_end_offset": None,
    "lost": Lost(None, (), WhyUnknown.NOT_LOADED),
    "gone_already": Gone(None),
    "hidden": Hidden(None),
    "deleted": None,
    "renamed": None,
    "rewritten": None,
}


@pytest.mark.parametrize("name", sorted(NOT_LOADED.keys() - {"lost", "hidden"}))
@pytest.mark.parametrize("served", [True, None])
def test_null_is_false_of_a_log_that_is_loaded_and_served(name: str, served: bool | None) -> None:
    unknown = msgspec.structs.replace(TRUE, served=served, **{name: NOT_LOADED[name]})
    assert kinds(claims(unknown), truth()) == ["UNKNOWN"]


def test_null_hides_no_other_false_claim_about_files() -> None:
    silent = msgspec.structs.replace(TRUE, rewritten=None, deleted=(LOG,))
    assert kinds(claims(silent), truth()) == ["UNKNOWN", "DELETED"]
    assert kinds(claims(msgspec.structs.replace(TRUE, rewritten=(), deleted=None)), truth()) == ["UNKNOWN", "REWRITTEN"]


def test_null_is_right_where_no_log_is_loaded_or_a_link_leads_nowhere() -> None:
    said = claims(msgspec.structs.replace(TRUE, served=None, **NOT_LOADED))
    assert kinds(said, truth()) == ["UNKNOWN"]
    did = truth()
    did.loaded.clear()
    assert kinds(said, did) == []
    before = dataclasses.replace(BEFORE, is_linked_nowhere=True)
    assert list(differences(said, truth(), {FOLDER: before})) == []


def test_what_was_deleted_on_purpose_may_be_lost_where_another_record_is_there() -> None:
    twice = dataclasses.replace(BEFORE, below=BEFORE.below | {Found(8, 1)})
    claim = msgspec.structs.replace(TRUE, lost=Lost(3, ((8, 8), (13, 14))))
    told = differences(Claims(BrokerClaim(True), partitions={FOLDER: claim}), truth(), {FOLDER: twice})
    assert [each for each in told if each.kind.startswith("LOST")] == []


def test_what_was_deleted_on_purpose_may_be_hidden_where_another_record_is_served() -> None:
    twice = dataclasses.replace(BEFORE, below=BEFORE.below | {Found(8, 1)})
    did = dataclasses.replace(truth(), kept={FOLDER: set(found(*range(13))) | {Found(8, 1)}})
    claim = msgspec.structs.replace(TRUE, hidden=Hidden(2, ((8, 9),)))
    assert [*differences(Claims(BrokerClaim(True), partitions={FOLDER: claim}), did, {FOLDER: twice})] == []


def test_what_a_recovery_writes_is_rewritten_though_it_looks_appended() -> None:
    did = dataclasses.replace(truth(), files_without_markers={FOLDER: {LOG: 1}})
    assert kinds(claims(), did) == []


def test_a_silent_doctor_is_found() -> None:
    assert kinds(without_partitions(claims()), truth()) == ["SILENT"]


def without_partitions(said: Claims) -> Claims:
    return msgspec.structs.replace(said, partitions={})


STARTS: list[tuple[str, Claims, Callable[[Truth], Truth]]] = [
    ("START", claims(broker=BrokerClaim(False)), lambda did: did),
    ("START", claims(), lambda did: dataclasses.replace(did, is_up=False)),
    (
        "ERROR",
        claims(broker=BrokerClaim(False, "org.apache.kafka.KafkaException")),
        lambda did: dataclasses.replace(did, is_up=False, thrown={"CorruptIndexException"}),
    ),
    ("LOG DIR", claims(is_online=False), lambda did: did),
    ("STRAY", claims(PartitionClaim("d0/t-0")), lambda did: dataclasses.replace(did, strays={FOLDER})),
    ("FAILED", Claims(None, "status 4"), lambda did: did),
]


@pytest.mark.parametrize(("kind", "said", "change"), STARTS, ids=[f"{n}-{row[0]}" for n, row in enumerate(STARTS)])
def test_a_false_claim_about_the_start_is_found(kind: str, said: Claims, change: Callable[[Truth], Truth]) -> None:
    assert kind in kinds(said, change(truth()))


def test_a_consumer_that_is_stuck_where_nothing_is_said() -> None:
    did = truth()
    did.read["t-0"] = dataclasses.replace(did.read["t-0"], records=found(*range(5, 13)), stuck=(9,))
    said = msgspec.structs.replace(TRUE, hidden=Hidden(0, ()))
    assert kinds(claims(said), did) == ["STUCK"]


@pytest.mark.parametrize("witness", ["recovery point", "snapshot", "leader epoch"])
def test_each_witness_counts(witness: str) -> None:
    before = dataclasses.replace(BEFORE, reaches={witness: 30})
    told = [each.kind for each in differences(claims(), truth(), {FOLDER: before})]
    assert told == ["GONE"]
    assert kinds(claims(), truth()) == []


def test_a_hole_between_segments_is_gone() -> None:
    before = dataclasses.replace(BEFORE, holes=((20, 22),))
    assert [each.kind for each in differences(claims(), truth(), {FOLDER: before})] == ["GONE"]


@pytest.mark.parametrize("excuse", [{"hidden": Hidden(1, ((9, 9), (15, 19)))}, {"lost": Lost(2, ((13, 19),))}])
def test_what_is_on_no_disk_is_neither_hidden_nor_lost(excuse: dict[str, object]) -> None:
    said = claims(msgspec.structs.replace(TRUE, gone_already=Gone(), **excuse))
    assert kinds(said, truth()) == ["GONE"]
    there = dataclasses.replace(BEFORE, spans=((15, 19),))  # batches without records, as of transactions
    assert list(differences(said, truth(), {FOLDER: there})) == []


def test_witnesses_and_holes_are_found_on_the_disk(tmp_path: pathlib.Path) -> None:
    disks = pathlib.Path(shutil.copytree(BROKER, tmp_path / "disks"))
    sound = before_start(disks)["d1/t-0"]
    assert (sound.end, sound.holes) == (43, ())
    assert sound.reaches == {"high watermark": 43, "recovery point": 43, "snapshot": 43, "leader epoch": 0}
    for path in (disks / "d1/t-0").glob(f"{11:020d}.*"):
        path.unlink()
    assert before_start(disks)["d1/t-0"].holes == ((11, 21),)
    (disks / "d1/cleaner-offset-checkpoint").write_text("0\n1\nt 0 22\n")
    assert before_start(disks)["d1/t-0"].holes == ()  # as after a cleaning


def test_a_file_of_epochs_that_no_broker_wrote_is_no_witness(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "leader-epoch-checkpoint"
    for text, start in (("0\n1\n0 7\n", 7), ("0\n1\x020 0\n0 7\n", 0), ("0\n2\n0 7\n", 0), ("0\n\n0 7\n", 0), ("", 0)):
        file.write_text(text)
        assert _last_epoch_start(file) == start


def test_a_kind_that_judged_nothing_is_told() -> None:
    """One false claim in a thousand may be chance; nothing judged is no proof at all."""
    tally = Tally()
    for case, judged in (("crowd", 104), ("dir options", 0), ("dirs", 1)):
        tally.add(Outcome(case, "4.3.1", "12.0", "S3", {}, judged))
    assert tally.without_judgement() == ["4.3.1 dir options"]


def late_elsewhere(here: int, number: int) -> Iterator[Outcome]:
    """A case whose client waits in vain in another process than this one."""
    told = "error org.apache.kafka.common.errors.TimeoutException: Failed to get offsets by times in 6057ms"
    is_late = number == 1 and os.getpid() != here
    yield Outcome("crowd", "4.3.1", str(number), "S3", {}, 1, [Difference("SERVED", FOLDER, told)] if is_late else [])


def test_what_was_late_beside_another_is_judged_alone() -> None:
    found = list(judged_by(2, (partial(late_elsewhere, os.getpid(), number) for number in range(3))))
    assert [outcome.seed for outcome in found] == ["0", "2", "1"]
    assert not any(outcome.differences for outcome in found)


def test_a_folder_that_gets_its_name_back_leaves_no_other_option() -> None:
    """It moves away what has that name: what the options of this one say does not hold then."""
    paths = ("d1/t-0.5a3f-delete", "d0/t-0", "d0/t-0", "d0/t-0/x.log", "d0", "d0/u-1", "d1/meta.properties")
    said = msgspec.structs.replace(claims(), fixable=tuple((n, f"/r/{path}") for n, path in enumerate(paths, 1)))
    for seed in range(20):
        chosen = _chosen(said, pathlib.Path("/r"), random.Random(seed))
        assert len(chosen.keys() & {1, 2, 3}) == 1
        assert chosen.keys() - {1, 2, 3} == {4, 5, 6, 7}
        assert all(paths[number - 1] == path for number, path in chosen.items())


def test_what_has_a_newer_record_may_be_left_out_by_a_cleaned_segment(tmp_path: pathlib.Path) -> None:
    """As long as the newer one stays."""
    folder = tmp_path / "d0" / "manyc-0"
    folder.mkdir(parents=True)
    (tmp_path / "d1").mkdir()
    records = [Record(offset, 0, b"same", b"value") for offset in range(3)]
    (folder / LOG).write_bytes(build_batch(records))
    plain = before_start(tmp_path)["d0/manyc-0"]
    (folder / f"{LOG}.swap").write_bytes(build_batch(records[2:]))
    swapped = before_start(tmp_path)["d0/manyc-0"]
    kept = {record for record in swapped.records if record.offset == 2}
    assert sorted(record.offset for record in _superseded(swapped, kept)) == [0, 1]
    assert _superseded(swapped, set()) == _superseded(plain, kept) == set()
