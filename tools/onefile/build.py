#!/usr/bin/env python3
"""Build klogtool-VERSION-linux-MACHINE.run: klogtool with a Python and a libc of its own, in one file.

Needs Debian 12: its `apt-get` brings Python 3.11 and what it links, for either architecture. They are unpacked, not
installed. klogtool's own wheel comes out of `make dist`, the others come by pip. The program starts by the loader that
lies in the file, so the host's libc does not matter.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import hashlib
import io
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import make_sbom  # noqa: E402

DEBS = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("libc6", "libgcc-s1", "zlib1g", "libbz2-1.0", "liblzma5", "libffi8", "libexpat1", "libuuid1", "libssl3"),
)
# machine: (Debian's name, its folder of libraries, the loader)
MACHINES = {
    "x86_64": ("amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "aarch64": ("arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
}
LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libgcc_s.so.1")
LIBRARIES += ("libz.so.1", "libbz2.so.1.0", "liblzma.so.5", "libffi.so.8", "libexpat.so.1", "libuuid.so.1")
LIBRARIES += ("libcrypto.so.3",)
PYTHON_TAGS = ("manylinux_2_17", "manylinux2014", "manylinux_2_28")
TEST_WHEELS = ("pytest", "pytest-timeout", "hypothesis")
MOST_BYTES = 40_000_000
LAUNCHER = """#!/bin/sh
# Starts {what} by the loader that lies here: the host's libc is not asked.
here=${{0%/*}}
unset LD_PRELOAD LD_LIBRARY_PATH
set -- --argv0 "$here/{python}" "$here/{program}" {words}"$@"
exec "$here/{lib}/{loader}" --inhibit-cache --library-path "$here/{lib}" "$@"
"""


def run(*words: object, **more: object) -> None:
    """Run a command; its failure ends this."""
    subprocess.run([str(word) for word in words], check=True, **more)  # type: ignore[call-overload]


def fetch_debs(work: pathlib.Path, architecture: str) -> list[pathlib.Path]:
    """Bring the packages of Debian for an architecture; the host's own lists of packages stay as they are."""
    for folder in ("state/lists/partial", "cache/archives/partial", "debs"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "apt.conf").write_text(
        f'Dir::State "{work}/state"; Dir::State::status "{work}/status"; Dir::Cache "{work}/cache";\n'
        f'APT::Architecture "{architecture}"; APT::Architectures {{ "{architecture}"; }};\n'
        'APT::Sandbox::User "root";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(work / "apt.conf")}
    run("apt-get", "-qq", "update", env=environment, stderr=subprocess.DEVNULL)
    run("apt-get", "-qq", "download", *DEBS, cwd=work / "debs", env=environment)
    return sorted((work / "debs").glob("*.deb"))


def make_crcmod(work: pathlib.Path) -> None:
    """Make a wheel for any machine of crcmod, which is published as source: without its extension, which klogtool's
    own kernels replace."""
    run(sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "-w", work, "crcmod")
    (made,) = work.glob("crcmod-*.whl")
    name = "-".join(made.name.split("-")[:2])
    (work / "wheels").mkdir()
    with zipfile.ZipFile(made) as whole, zipfile.ZipFile(work / f"wheels/{name}-py3-none-any.whl", "w") as pure:
        for entry in whole.infolist():
            if entry.filename.endswith("/WHEEL"):
                text = "Wheel-Version: 1.0\nGenerator: klogtool\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
                pure.writestr(entry.filename, text)
            elif not entry.filename.endswith(".so"):
                pure.writestr(entry, whole.read(entry))


def fetch_wheels(work: pathlib.Path, machine: str, *wanted: object) -> list[pathlib.Path]:
    """Bring klogtool's wheel, those that it requires, and others that are wanted, for another machine too."""
    make_crcmod(work)
    platforms = [word for tag in PYTHON_TAGS for word in ("--platform", f"{tag}_{machine}")]
    run(
        *(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"),
        *("-d", work / "wheels", "--find-links", work / "wheels", *platforms),
        *("--only-binary=:all:", "--python-version", "3.11", *wanted),
    )
    return sorted((work / "wheels").glob("*.whl"))


def lay_out(
    work: pathlib.Path, tree: pathlib.Path, machine: str, debs: list[pathlib.Path], wheels: list[pathlib.Path]
) -> None:
    """Put together the folder that is packed, with nothing left out."""
    _, folder, loader = MACHINES[machine]
    root = work / "root"
    for deb in debs:
        run("dpkg-deb", "-x", deb, root)
    (tree / "lib").mkdir(parents=True)
    (tree / "python/bin").mkdir(parents=True)
    for name in (loader, *LIBRARIES):
        found = [path for path in (root / f"lib/{folder}/{name}", root / f"usr/lib/{folder}/{name}") if path.exists()]
        shutil.copy(found[0], tree / "lib" / name)
    shutil.copy(root / "usr/bin/python3.11", tree / "python/bin/python3.11.bin")
    shutil.copytree(
        root / "usr/lib/python3.11", tree / "python/lib/python3.11", symlinks=False, ignore_dangling_symlinks=True
    )
    packages = tree / "python/lib/python3/dist-packages"
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    write_launchers(tree, loader)


def trim(tree: pathlib.Path) -> None:
    """Leave out what is not needed, and compile the rest."""
    leave_out(tree / "python/lib")
    compileall.compile_dir(
        str(tree / "python/lib"),
        quiet=2,
        stripdir=str(tree),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def leave_out(folder: pathlib.Path) -> None:
    """Delete what leave_out.txt names."""
    for line in (HERE / "leave_out.txt").read_text().splitlines():
        for path in folder.glob(line) if line and not line.startswith("#") else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_launchers(tree: pathlib.Path, loader: str) -> None:
    """`klogtool`, and the `python3` that it runs under, which can start others of its kind."""
    klogtool = {"lib": "lib", "python": "python/bin/python3", "program": "python/bin/python3.11.bin"}
    python = {"lib": "../../lib", "python": "python3", "program": "python3.11.bin"}
    texts = {
        "klogtool": LAUNCHER.format(what="klogtool", loader=loader, words="-I -m klogtool ", **klogtool),
        "python/bin/python3": LAUNCHER.format(what="Python", loader=loader, words="", **python),
    }
    # By this name an image that has no shell starts the program, whatever the machine is.
    (tree / "lib/ld.so").symlink_to(loader)
    for name, text in texts.items():
        (tree / name).write_text(text)
        (tree / name).chmod(0o755)


def packed(tree: pathlib.Path) -> bytes:
    """The folder as tar.gz: the same bytes for the same files."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(tree.rglob("*")):
            info = tar.gettarinfo(str(path), arcname=path.relative_to(tree).as_posix())
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            info.mode = 0o755 if path.is_dir() or info.mode & 0o100 else 0o644
            if path.is_file():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    return out.getvalue()


def main() -> None:
    """Build it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=pathlib.Path, help="klogtool's wheel for this machine")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("dist"))
    parser.add_argument("--for-tests", type=pathlib.Path, metavar="DIR", help="only lay all out in DIR, with pytest")
    asked = parser.parse_args()
    _, version, *_, tag = asked.wheel.stem.split("-")
    machine = next(name for name in MACHINES if tag.endswith(name))
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        tree = asked.for_tests or work / "tree"
        wheels = fetch_wheels(work, machine, asked.wheel, *(TEST_WHEELS if asked.for_tests else ()))
        debs = fetch_debs(work, MACHINES[machine][0])
        lay_out(work, tree, machine, debs, wheels)
        (tree / make_sbom.FILE_NAME).write_text(make_sbom.text(make_sbom.of_one_file(version, wheels, debs)))
        if asked.for_tests:
            return
        trim(tree)
        data, loader = packed(tree), (tree / "lib" / MACHINES[machine][2]).read_bytes()
    output = asked.output / f"klogtool-{version}-linux-{machine}.run"
    asked.output.mkdir(exist_ok=True)
    output.write_bytes(start_script(version, machine, data, loader) + data)
    output.chmod(0o755)
    print(f"{output}: {output.stat().st_size / 1e6:.1f} MB")
    if output.stat().st_size > MOST_BYTES:
        sys.exit(f"more than {MOST_BYTES / 1e6:.0f} MB")


def start_script(version: str, machine: str, data: bytes, loader: bytes) -> bytes:
    """Return the shell script in front of the packed folder. loader: the bytes of the program that starts it."""
    digest = hashlib.sha256(data).hexdigest()
    values = {"VERSION": version, "MACHINE": machine, "SIZE": str(len(data)), "SHA256": digest, "SHORT": digest[:12]}
    values |= {"LOADER": MACHINES[machine][2], "LOADER_SHA256": hashlib.sha256(loader).hexdigest()}
    text = (HERE / "start.sh").read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text.encode()


if __name__ == "__main__":
    main()
