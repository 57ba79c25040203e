"""Every cure of every finding is carried out, as it is printed, on a damaged copy.

Afterwards the finding is gone, nothing new is found, no record is gone that `salvage` would have kept, and what else
is wrong can be cured as well, until nothing is left.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from curing import MOST_ROUNDS, Told, carry_out, paste, readable_records, verified
from damage import append_bytes, flip_bit, frames_of, tear_at
from running import FIXTURES, run_here
from verifying import copy_file, rename
from wounded import ACTIVE, CASES, FIRST, OF_SCRUB, Case, batch_at, log_of, side_of, swap_of_the_first

from klogtool import render
from klogtool.escape import quoted
from klogtool.verify.causes import CureCause
from klogtool.verify.findings import KINDS

Path = pathlib.Path
CopyOf = Callable[[str], Path]
PAIRS = int(os.environ.get("KLOGTOOL_CURE_PAIRS", "40"))

# Findings without a cure, and why.
NOTHING_TO_DO = {
    "epoch-order": "the log was written so; only a comparison with a replica tells which epochs are right",
    "sequence-gap": "the records were lost before they got here, or never written",
    "timestamp-implausible": "the producer wrote it; settings keep the next one out",
    "index-untrimmed": "normal after a kill, and in the metadata log of 4.4.0; the next start trims it",
    "snapshot-missing": "a broker builds what it needs",
    "orphan-file": "a broker deletes it; before that its .log is to be looked for",
    "leftover-deleted": "a broker deletes it",
    "foreign-file": "a broker leaves it alone",
    "metadata-replay": "another controller may have the log without the record; to cut it forgets changes",
    "unclean-shutdown": "normal after a kill: a broker recovers",
}
# Their cure needs another node: words for a person, which nothing here can carry out.
FOR_ANOTHER_NODE = {"metadata-replay"}
# What a cure may bring about that verify tells of, and why that is as it should be.
COMES_OF_IT = {
    "unclean-shutdown": "clean-marker-false",  # that is the cure: a broker is to recover
    "segment-gap": "batch-crc torn-batch offset-overflow",  # offsets that no copy has, where a segment ends
    "partition-metadata-missing": "torn-batch",  # salvage leaves a damaged one out
}


def last_batch_flipped(log: Path) -> None:
    flip_bit(log, log.stat().st_size - 3)


def unclean(log_dir: Path) -> None:
    (log_dir / ".kafka_cleanshutdown").unlink()


def both(*wounds: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda log_dir: [wound(log_dir) for wound in wounds]


def torn(base: str) -> Callable[[Path], object]:
    return lambda d: tear_at(log_of(d, base), log_of(d, base).stat().st_size - 5)


def short_swap_of_the_last(log_dir: Path) -> None:
    """A .swap that would take the place of the end of the log."""
    log = log_of(log_dir, ACTIVE)
    swap = copy_file(log, log.name + ".swap")
    tear_at(swap, batch_at(log, 2).position)


def short_swap_of_the_first(log_dir: Path) -> None:
    """A .swap beside its sound original, which it would replace though it has less."""
    log = log_of(log_dir)
    swap = copy_file(log, log.name + ".swap")
    tear_at(swap, batch_at(log, 2).position)
    copy_file(log.with_suffix(".index"), f"{log.stem}.index.swap")


def misnamed(log_dir: Path) -> None:
    rename(log_of(log_dir), "0.log")


def misnamed_beside_its_name(log_dir: Path) -> None:
    copy_file(log_of(log_dir), "0.log")
    tear_at(log_dir / "t-0/0.log", batch_at(log_of(log_dir), 3).position)


def named_too_high(log_dir: Path) -> None:
    for kind in ("log", "index", "timeindex"):
        rename(side_of(log_dir, kind, ACTIVE), f"{50:020d}.{kind}")


def shorter_duplicate(log_dir: Path) -> None:
    shutil.copytree(log_dir / "t-0", log_dir / "t-00")
    torn(ACTIVE)(log_dir)


def unreadable_folder(log_dir: Path) -> None:
    side_of(log_dir, "index").unlink()
    side_of(log_dir, "index").mkdir()


MORE_CASES = {
    # A broker loads and serves such a log, so its side files can be rebuilt.
    **{
        f"{name} beside a wrong count of records": (name, both(CASES["batch-attributes"].wound, CASES[name].wound))
        for name in ("index-missing", "timeindex-entry", "snapshot-corrupt", "epochs-content")
    },
    "the last batch of a closed segment": ("batch-crc", lambda d: last_batch_flipped(log_of(d))),
    "the last batch of the log": ("batch-crc", lambda d: last_batch_flipped(log_of(d, ACTIVE))),
    "the last batch of the log, after a kill": (
        "batch-crc",
        both(unclean, lambda d: last_batch_flipped(log_of(d, ACTIVE))),
    ),
    "a closed segment is torn": ("torn-batch", torn(FIRST)),
    "a closed segment is torn, after a kill": ("torn-batch", both(unclean, torn(FIRST))),
    "a closed segment and the last one are torn": ("torn-batch", both(torn(FIRST), torn(ACTIVE))),
    "zeros behind a closed segment": ("zero-tail", lambda d: append_bytes(log_of(d), bytes(100))),
    "garbage behind a closed segment": ("foreign-bytes", lambda d: append_bytes(log_of(d), b"garbage" * 30)),
    "a torn log without readable epochs": ("torn-batch", both(torn(ACTIVE), CASES["epochs-corrupt"].wound)),
    "a torn log without partition.metadata": (
        "torn-batch",
        both(torn(ACTIVE), CASES["partition-metadata-corrupt"].wound),
    ),
    "a torn log without an index": ("torn-batch", both(torn(ACTIVE), lambda d: side_of(d, "index", ACTIVE).unlink())),
    "a bad snapshot of a damaged log": (
        "snapshot-corrupt",
        both(CASES["batch-crc"].wound, CASES["snapshot-corrupt"].wound),
    ),
    "bad epochs of a damaged log": ("epochs-corrupt", both(CASES["batch-crc"].wound, CASES["epochs-corrupt"].wound)),
    "no index of a damaged segment": ("index-missing", both(CASES["batch-crc"].wound, CASES["index-missing"].wound)),
    "no index behind a damaged segment": (
        "index-missing",
        both(CASES["batch-crc"].wound, lambda d: side_of(d, "index", ACTIVE).unlink()),
    ),
    "a swap over a damaged log": ("leftover-swap", both(swap_of_the_first, CASES["batch-crc"].wound)),
    "a swap that would shorten the log": ("leftover-swap", short_swap_of_the_last),
    "a swap that has less than its original": ("leftover-swap", short_swap_of_the_first),
    "a cleaning that broke off, and bad epochs": (
        "epochs-content",
        both(CASES["leftover-cleaned"].wound, CASES["epochs-content"].wound),
    ),
    "a name of too few digits": ("segment-name", misnamed),
    "a name of too few digits beside the right one": ("segment-name", misnamed_beside_its_name),
    "a name above the first batch": ("segment-name", named_too_high),
    "of two copies the first is shorter": ("duplicate-partition", shorter_duplicate),
    "a folder in the place of an index": ("unreadable", unreadable_folder),
    "a node id that is no number": (
        "meta-properties-corrupt",
        lambda d: (d / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=x\n"),
    ),
    "a checkpoint with a number that is none": (
        "checkpoint-corrupt",
        lambda d: (d / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 x\n"),
    ),
    "a checkpoint of a partition that is gone": (
        "checkpoint-entry",
        lambda d: (d / "log-start-offset-checkpoint").write_text("0\n2\nnot.here 3 4\nt 0 7900\n"),
    ),
}


@dataclass
class Scene:
    """A wounded copy. root: all of it, with a folder beside the log dir that commands run in."""

    root: Path
    case: Case
    paths: list[str] = field(default_factory=list)
    sound: set[tuple[str, str]] = field(default_factory=set)

    @property
    def log_dir(self) -> Path:
        return self.root / "disk/logdir"

    @property
    def folder(self) -> Path:
        return self.root / "cwd"

    def find(self) -> list[Told]:
        return verified(self.paths, self.folder, self.case.now_ms)


def a_scene(case: Case, root: Path) -> Scene:
    scene = Scene(root, case)
    scene.folder.mkdir()
    shutil.copytree(FIXTURES / case.fixture, scene.log_dir)
    for path in scene.log_dir.rglob("*.checkpoint"):
        path.chmod(0o644)
    scene.paths = [str(scene.log_dir / path).rstrip("/") for path in case.paths]
    scene.sound = {told.place for told in scene.find()}
    case.wound(scene.log_dir)
    return scene


def put_back(scene: Scene, told: Told) -> None:
    """The file as it was, by somebody who knows the ids."""
    name = os.path.relpath(told.path, scene.log_dir)
    shutil.copy(FIXTURES / scene.case.fixture / name, told.path)


def use_a_sub_folder(scene: Scene, _: Told) -> None:
    """The disk's root is no log dir any more; for this test the sub-folder takes its name."""
    disk = scene.log_dir.rename(scene.log_dir.with_name("root"))
    (disk / "lost+found").rename(scene.log_dir.with_name("lost+found"))
    disk.rename(scene.log_dir)


def fill_from_a_replica(scene: Scene, told: Told) -> None:
    command = str(told.cure).partition(": ")[2].replace("COPY", quoted(str(FIXTURES / "two-disks/logdir/d1/t-1")))
    carry_out(command, scene.folder)


def salvage_or_leave(scene: Scene, told: Told) -> None:
    """Leave what salvage keeps whole; otherwise take what it keeps."""
    command = str(told.cure).partition("Otherwise: ")[2]
    partition = pathlib.Path(told.path).parent
    answer = json.loads(run_here(["salvage", str(partition), "--format", "json"], scene.folder).out.splitlines()[-1])
    if answer["answer"]["rejected"]:
        carry_out(command, scene.folder)
    else:
        scene.sound.add(told.place)


# Cures in words, each done by hand.
BY_HAND: dict[str, Callable[[Scene, Told], None]] = {
    "meta-properties-corrupt": put_back,
    "meta-properties-missing": put_back,
    "partition-metadata-corrupt": put_back,
    "partition-metadata-missing": put_back,
    "foreign-folder": use_a_sub_folder,
    "segment-gap": fill_from_a_replica,
    "batch-attributes": salvage_or_leave,
}


def cure(scene: Scene, told: Told) -> None:
    """Do what a finding says, to the letter, or by hand where it says it in words."""
    assert told.cure is not None, told
    if told.is_command:
        carry_out(told.cure, scene.folder)
    else:
        BY_HAND[told.id](scene, told)


def check_cure(scene: Scene, finding_id: str) -> None:
    """The laws that hold of the cure of a finding, and of those of all others behind it."""
    before, records = scene.find(), readable_records(scene.root)
    wanted = [told for told in before if told.id == finding_id and told.place not in scene.sound]
    assert wanted, f"{finding_id} is not found"
    told = wanted[0]
    cure(scene, told)
    after = scene.find()
    assert told.place in scene.sound or told.place not in {one.place for one in after}, f"not gone: {told.cure}"
    new = {one.place for one in after} - {one.place for one in before} - scene.sound
    assert not {place for place in new if finding_id not in COMES_OF_IT.get(place[0], "").split()}, told.cure
    lost = records - readable_records(scene.root)
    assert not lost, f"{len(lost)} records are gone: {told.cure}"
    check_rest(scene, records)


def check_rest(scene: Scene, records: set[tuple[object, ...]]) -> None:
    """All other cures, one after the other, lead to a log dir that nothing can be done about any more."""
    for _ in range(MOST_ROUNDS):
        left = [told for told in scene.find() if told.cure is not None and told.place not in scene.sound]
        if not [told for told in left if not told.needs_a_replica]:
            break
        cure(scene, next(told for told in left if told.is_command or (told.id in BY_HAND and not told.needs_a_replica)))
    else:
        pytest.fail(f"still to be cured: {left}")
    for told in scene.find():
        assert told.place in scene.sound or told.id in {*NOTHING_TO_DO, *COMES_OF_IT}, told
    assert not records - readable_records(scene.root)


def test_every_finding_has_a_cure_or_a_reason_why_not() -> None:
    of_remote = {name for name in KINDS if name.startswith("remote-")}  # tests/remote has those
    assert CASES.keys() == KINDS.keys() - OF_SCRUB - of_remote
    assert NOTHING_TO_DO.keys() < KINDS.keys()


@pytest.mark.parametrize("finding_id", sorted(CASES.keys() - NOTHING_TO_DO.keys()))
def test_the_cure_mends_it_and_costs_nothing(finding_id: str, tmp_path: Path) -> None:
    check_cure(a_scene(CASES[finding_id], tmp_path), finding_id)


@pytest.mark.parametrize("finding_id", sorted(NOTHING_TO_DO))
def test_what_cannot_be_mended_names_no_cure(finding_id: str, tmp_path: Path) -> None:
    found = [told for told in a_scene(CASES[finding_id], tmp_path).find() if told.id == finding_id]
    assert found
    assert {told.cure for told in found} == {None} or finding_id in FOR_ANOTHER_NODE


def test_to_forget_changes_of_the_metadata_is_a_whole_command(tmp_path: Path) -> None:
    scene = a_scene(CASES["metadata-replay"], tmp_path)
    (told,) = [told for told in scene.find() if told.id == "metadata-replay"]
    command = str(told.cure).partition("if there is none: ")[2].partition(" forgets ")[0]
    paste(command, scene.folder)
    assert "metadata-replay" not in {told.id for told in scene.find()}


WRITING = ("rebuild-index", "salvage", "recover", "truncate")


@pytest.mark.parametrize("name", sorted(CureCause.__members__))
def test_a_command_that_mends_writes(name: str) -> None:
    """Pasted, it does what the finding says that it does: it does not only show a plan."""
    sentence = json.loads((pathlib.Path(render.__file__).parent / "words.json").read_text())["CureCause"][name]
    if sentence.startswith(tuple(f"klogtool {command} {{" for command in WRITING)):
        assert sentence.endswith((" --apply", " --output DIR"))


@pytest.mark.parametrize("name", MORE_CASES)
def test_the_cure_of_a_harder_case(name: str, tmp_path: Path) -> None:
    finding_id, wound = MORE_CASES[name]
    check_cure(a_scene(Case(wound), tmp_path), finding_id)


ODD_NAMES = ["a b", "it's", "-dash", "tab\tand\x1b[1m", "new\nline", "\udcff", "$HOME `id`", "ü"]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
@pytest.mark.parametrize(
    "finding_id", ["index-missing", "duplicate-partition", "checkpoint-corrupt", "checkpoint-entry"]
)
def test_cures_are_for_a_shell_whatever_a_path_looks_like(name: str, finding_id: str, tmp_path: Path) -> None:
    """As they are printed as text, for a path that was given as it is from the folder that verify runs in."""
    shutil.copytree(FIXTURES / CASES[finding_id].fixture, tmp_path / name)
    CASES[finding_id].wound(tmp_path / name)
    given = f"./{name}" if name.startswith("-") else name
    done = run_here(["verify", given], tmp_path)
    (cure,) = (line.split("→")[1] for line in done.out.decode(errors="replace").splitlines() if "→" in line)
    paste(cure, tmp_path)
    assert finding_id not in run_here(["verify", given], tmp_path).out.decode(errors="replace")


@pytest.mark.parametrize("path", [".", "../t-0", f"{FIRST}.index"])
def test_cures_hold_in_the_folder_that_verify_ran_in(path: str, copy_of: CopyOf) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    CASES["index-size"].wound(log_dir)
    (told,) = verified([path], log_dir / "t-0", CASES["index-size"].now_ms)
    carry_out(str(told.cure), log_dir / "t-0")
    assert not verified([path], log_dir / "t-0", CASES["index-size"].now_ms)


def test_a_single_file_names_no_cure_that_could_cost_others(copy_of: CopyOf) -> None:
    """Of the rest of the log nothing is known: so not even a torn tail is cut."""
    log_dir = copy_of("leader-epochs/logdir")
    torn(ACTIVE)(log_dir)
    found = verified([f"t-0/{ACTIVE}.log"], log_dir, CASES["torn-batch"].now_ms)
    assert {told.cure for told in found} == {"klogtool salvage t-0 --output DIR"}


def test_what_is_moved_out_overwrites_nothing(copy_of: CopyOf) -> None:
    log_dir = copy_of("leader-epochs/logdir")
    kept = log_dir.with_name("logdir.moved-out") / "t-0/foo.log"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"moved out before")
    CASES["segment-name"].wound(log_dir)
    (told,) = verified([str(log_dir)], log_dir.parent, CASES["segment-name"].now_ms)
    subprocess.run(["bash", "-c", str(told.cure)], check=False)
    assert kept.read_bytes() == b"moved out before"
    assert (log_dir / "t-0/foo.log").exists()


def wounded_by_chance(rng: random.Random, log_dir: Path) -> Iterator[str]:
    """One to three files of partitions are flipped, cut, overgrown, gone, misnamed, or there twice."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        files = [path for path in sorted(log_dir.rglob("*")) if path.is_file() and path.parent != log_dir]
        logs = [path for path in files if path.suffix == ".log"]
        path = rng.choice(logs if rng.random() < 0.6 else files)
        what = rng.choice(sorted(CHANCES))
        CHANCES[what](rng, path)
        yield f"{what} {path.relative_to(log_dir)}"


def flip_some(rng: random.Random, path: Path) -> None:
    size = path.stat().st_size
    for _ in range(rng.choice((1, 1, 5)) if size else 0):
        flip_bit(path, rng.randrange(size), rng.randrange(8))


def misname(rng: random.Random, path: Path) -> None:
    base, end = path.name[:20], path.name[20:]
    if base.isdigit() and int(base) > 3:
        rename(path, f"{int(base) + rng.choice((-3, -1, 1, 5, 1000)):020d}{end}")


def repeat_a_batch(rng: random.Random, path: Path) -> None:
    data = path.read_bytes()
    frames = list(frames_of(data)) if path.suffix == ".log" else []
    if frames:
        one, at = rng.choice(frames), rng.choice(frames).position
        path.write_bytes(data[:at] + data[one.position : one.position + one.size] + data[at:])


CHANCES: dict[str, Callable[[random.Random, Path], object]] = {
    "flip": flip_some,
    "flip again": flip_some,
    "cut": lambda rng, path: tear_at(path, rng.randrange(path.stat().st_size + 1)),
    "zeros": lambda rng, path: append_bytes(path, bytes(rng.randrange(1, 300))),
    "garbage": lambda rng, path: append_bytes(path, rng.randbytes(rng.randrange(1, 100))),
    "delete": lambda rng, path: path.unlink(),
    "misname": misname,
    "copy": lambda rng, path: copy_file(path, path.name + rng.choice((".deleted", ".cleaned", ".swap"))),
    "repeat": repeat_a_batch,
}
WOUNDED_BY_CHANCE = (
    *("leader-epochs/logdir", "transactions/logdir", "two-disks/logdir/d1", "killed-mid-append/logdir"),
    *("three-magics/logdir", "retention/logdir", "groups/logdir"),
)


@pytest.mark.slow
def test_the_cures_of_wounds_by_chance_lead_to_a_sound_log_dir(tmp_path: Path) -> None:
    """KLOGTOOL_CURES: how many (default 30); KLOGTOOL_CURES_SEED: from this seed on."""
    first = int(os.environ.get("KLOGTOOL_CURES_SEED", "0"))
    for seed in range(first, first + int(os.environ.get("KLOGTOOL_CURES", "30"))):
        rng, told = random.Random(seed), [f"KLOGTOOL_CURES_SEED={seed}"]
        (tmp_path / str(seed)).mkdir()
        case = Case(lambda d, rng=rng, told=told: told.extend(wounded_by_chance(rng, d)), rng.choice(WOUNDED_BY_CHANCE))
        scene = a_scene(case, tmp_path / str(seed))
        try:
            check_rest(scene, readable_records(scene.root))
        except BaseException as error:
            error.add_note("; ".join([*told, case.fixture]))
            raise
        shutil.rmtree(tmp_path / str(seed))


def pairs() -> Sequence[tuple[str, str]]:
    """Two wounds in the same log dir, by a seed; KLOGTOOL_CURE_PAIRS: how many, 0 for all."""
    here = [name for name, case in CASES.items() if case.fixture == CASES["batch-crc"].fixture]
    every = [(one, other) for one in here for other in here if one < other]
    return every if not PAIRS else random.Random(PAIRS).sample(every, PAIRS)


@pytest.mark.parametrize("names", pairs(), ids=" and ".join)
def test_the_cures_of_two_wounds_lead_to_a_sound_log_dir(names: tuple[str, str], tmp_path: Path) -> None:
    first, second = (CASES[name] for name in names)
    try:
        scene = a_scene(Case(both(first.wound, second.wound), now_ms=min(first.now_ms, second.now_ms)), tmp_path)
    except (OSError, ValueError, IndexError, StopIteration):
        pytest.skip("the second wound does not go with the first")
    check_rest(scene, readable_records(scene.root))
