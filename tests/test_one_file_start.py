"""The start script of the one file, with a small folder behind it: it runs nothing that somebody else planted."""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools/onefile"))
Path = pathlib.Path
LOADER = b"#!/bin/sh\necho loader\n"
PROGRAM = b'#!/bin/sh\necho "klogtool $*"\n'
PLANTED = "#!/bin/sh\necho planted\n"
FOREIGN_UID = 4242
SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]
if not sys.platform.startswith("linux"):
    pytest.skip("the one file is for Linux", allow_module_level=True)


def packed() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in (("klogtool", PROGRAM), ("lib/ld-linux-x86-64.so.2", LOADER)):
            about = tarfile.TarInfo(name)
            about.size, about.mode, about.uid, about.gid = len(data), 0o755, FOREIGN_UID, FOREIGN_UID
            tar.addfile(about, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder as /tmp is, with the file beside it."""
    from build import start_script  # type: ignore[import-not-found]

    data = packed()
    tmp_path.chmod(0o755)
    (tmp_path / "klogtool.run").write_bytes(start_script("1.2.3", "x86_64", data, LOADER) + data)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "good").mkdir(mode=0o700)
    return tmp_path


def start(
    place: Path, *words: str, shell: str = "sh", home: str | None = None, to: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Start it. HOME, if it is given, comes first; then the folder like /tmp; a good folder is the last one."""
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(place / "good"), "XDG_CACHE_HOME": str(place / "tmp")}
    if home is not None:
        env = {**env, "HOME": home, "XDG_CACHE_HOME": ""}
    first = [shell, "sh"] if shell == "busybox" else [shell]
    asked = ["--to", to] if to is not None else []
    command = [*first, "./klogtool.run", *asked, *(words or ("verify", "x"))]
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False, umask=0o022)


def name_of(place: Path) -> str:
    """The name of the folder that it unpacks, learned where nothing is in the way."""
    there = place / "learned"
    assert start(place, to=str(there)).returncode == 0
    (name,) = os.listdir(there)
    shutil.rmtree(there)
    return name


def needs_root() -> None:
    if os.geteuid():
        pytest.skip("needs root, to be another user")


def belongs_to_somebody_else(path: Path) -> None:
    needs_root()
    for each in (path, *path.rglob("*")):
        os.lchown(each, FOREIGN_UID, FOREIGN_UID)


def plant(folder: Path) -> Path:
    """What an attacker unpacks."""
    (folder / "lib").mkdir(parents=True)
    for name in ("klogtool", "lib/ld-linux-x86-64.so.2"):
        (folder / name).write_text(PLANTED)
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("shell", SHELLS)
def test_it_unpacks_once_and_runs(place: Path, shell: str) -> None:
    first, second = start(place, shell=shell), start(place, "verify", "a b", shell=shell)
    assert (first.returncode, first.stdout) == (0, "klogtool verify x\n"), first.stderr
    assert "unpacked into" in first.stderr
    assert (second.returncode, second.stdout, second.stderr) == (0, "klogtool verify a b\n", "")
    (home,) = (place / "tmp").iterdir()
    assert home.stat().st_uid == (home / "klogtool").stat().st_uid == os.geteuid()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_file_without_its_folder(place: Path, shell: str) -> None:
    first = [shell, "sh"] if shell == "busybox" else [shell]
    env = {"PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(place / "tmp")}
    done = subprocess.run(
        [*first, "klogtool.run", "x"], cwd=place, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "klogtool x\n"), done.stderr


def test_a_damaged_file_says_so(place: Path) -> None:
    data = bytearray((place / "klogtool.run").read_bytes())
    data[-3] ^= 1
    (place / "klogtool.run").write_bytes(data)
    done = start(place)
    assert (done.returncode, done.stdout, "is damaged" in done.stderr) == (4, "", True)


# Each puts something in the way of the first folder that is tried. Returns HOME, if that is the first one.


def a_link_to_a_planted_folder(place: Path, name: str) -> None:
    os.symlink(plant(place / "evil"), place / "tmp" / name)
    belongs_to_somebody_else(place / "evil")
    os.lchown(place / "tmp" / name, FOREIGN_UID, FOREIGN_UID)


def a_link_to_a_folder_of_ours(place: Path, name: str) -> None:
    os.symlink(plant(place / "evil"), place / "tmp" / name)


def a_planted_folder(place: Path, name: str) -> None:
    belongs_to_somebody_else(plant(place / "tmp" / name))


def a_folder_that_others_may_write(place: Path, name: str) -> None:
    plant(place / "tmp" / name).chmod(0o777)


def a_folder_that_the_group_may_write(place: Path, name: str) -> None:
    plant(place / "tmp" / name).chmod(0o775)


def another_loader(place: Path, name: str) -> None:
    plant(place / "tmp" / name)


def a_file_of_somebody_else_in_our_folder(place: Path, name: str) -> None:
    start(place)
    (place / "tmp" / name / "klogtool").write_text(PLANTED)
    needs_root()
    os.chown(place / "tmp" / name / "klogtool", FOREIGN_UID, FOREIGN_UID)


def a_file_that_others_may_write_in_our_folder(place: Path, name: str) -> None:
    start(place)
    (place / "tmp" / name / "klogtool").write_text(PLANTED)
    (place / "tmp" / name / "klogtool").chmod(0o757)


def a_link_in_place_of_the_loader(place: Path, name: str) -> None:
    start(place)
    (place / "evil").write_text(PLANTED)
    (place / "evil").chmod(0o755)
    (place / "tmp" / name / "klogtool").write_text(PLANTED)
    (place / "tmp" / name / "lib/ld-linux-x86-64.so.2").unlink()
    os.symlink(place / "evil", place / "tmp" / name / "lib/ld-linux-x86-64.so.2")


def a_folder_around_that_others_may_rename(place: Path, name: str) -> None:
    start(place)
    (place / "tmp" / name / "klogtool").write_text(PLANTED)
    (place / "tmp").chmod(0o777)


def a_home_of_somebody_else(place: Path, name: str) -> str:
    """As with `sudo -E`."""
    (place / "home/.cache").mkdir(parents=True)
    plant(place / "home/.cache" / name)
    belongs_to_somebody_else(place / "home")
    for path in ((place / "home/.cache" / name), *(place / "home/.cache" / name).rglob("*")):
        os.chown(path, 0, 0)  # by a hard link, or by another fault
    return str(place / "home")


def a_home_with_a_link_to_a_planted_folder(place: Path, name: str) -> str:
    (place / "home").mkdir()
    plant(place / "evil/cache" / name)
    belongs_to_somebody_else(place / "evil")
    os.symlink(place / "evil/cache", place / "home/.cache")
    return str(place / "home")


ATTACKS: list[Callable[[Path, str], str | None]] = [
    a_link_to_a_planted_folder,
    a_link_to_a_folder_of_ours,
    a_planted_folder,
    a_folder_that_others_may_write,
    a_folder_that_the_group_may_write,
    another_loader,
    a_file_of_somebody_else_in_our_folder,
    a_file_that_others_may_write_in_our_folder,
    a_link_in_place_of_the_loader,
    a_folder_around_that_others_may_rename,
    a_home_of_somebody_else,
    a_home_with_a_link_to_a_planted_folder,
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_that_was_planted_runs(place: Path, attack: Callable[[Path, str], str | None], shell: str) -> None:
    """The next folder is taken."""
    home = attack(place, name_of(place))
    done = start(place, shell=shell, home=home)
    assert (done.returncode, done.stdout) == (0, "klogtool verify x\n"), done.stderr
    assert [path.name for path in (place / "good").iterdir()] == [name_of(place)]


@pytest.mark.parametrize("attack", [each for each in ATTACKS if "home" not in each.__name__])
def test_the_same_with_to(place: Path, attack: Callable[[Path, str], str | None]) -> None:
    """The folder was named: nothing else is taken."""
    attack(place, name_of(place))
    done = start(place, to=str(place / "tmp"))
    assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert "only you can write" in done.stderr


def test_a_folder_of_somebody_else_is_not_taken(place: Path) -> None:
    """Empty, or not there yet: whoever it belongs to can put something there later."""
    (place / "theirs").mkdir()
    belongs_to_somebody_else(place / "theirs")
    for to in ("theirs", "theirs/below", "theirs/below/it"):
        done = start(place, to=str(place / to))
        assert (done.returncode, done.stdout) == (4, ""), done.stderr
    assert list((place / "theirs").iterdir()) == []


def extracted(place: Path, to: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "./klogtool.run", "--extract", to], cwd=place, capture_output=True, text=True, check=False, umask=0o022
    )


def test_nothing_is_extracted_where_somebody_else_can_replace_it(place: Path) -> None:
    (place / "theirs").mkdir()
    (place / "anybody").mkdir()
    (place / "anybody").chmod(0o777)
    belongs_to_somebody_else(place / "theirs")
    for to in ("theirs", "theirs/below", "anybody", "anybody/below"):
        done = extracted(place, to)
        assert (done.returncode, done.stdout) == (4, ""), to
        assert "somebody else may put something there" in done.stderr
    assert [*(place / "theirs").iterdir(), *(place / "anybody").iterdir()] == []


def test_it_extracts_into_a_folder_that_a_group_shares(place: Path) -> None:
    (place / "shared").mkdir()
    (place / "shared").chmod(0o775)
    for to in ("shared", "tmp/new", "new"):
        assert extracted(place, to).returncode == 0
        assert (place / to / "klogtool").exists()
    assert (place / "new").stat().st_mode & 0o777 == 0o755
