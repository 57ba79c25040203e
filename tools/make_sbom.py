#!/usr/bin/env python3
"""make_sbom.py WHEEL...: put a bill of materials into each wheel, as PEP 770 has it.

It is sboms/klogtool.cdx.json in the .dist-info, as CycloneDX 1.6. A wheel has klogtool and what it requires; the one
file also has each wheel and each package of Debian that lies in it, with its version. There is no date in it: the same
files have the same bill.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile
from email.message import Message
from email.parser import Parser
from typing import Any

FILE_NAME = "sbom.cdx.json"
Component = dict[str, Any]


def metadata(wheel: pathlib.Path) -> Message:
    """What the METADATA of a wheel says."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA") and each.count("/") == 1]
        return Parser().parsestr(archive.read(name).decode())


def of_pypi(name: str, version: str | None, license_name: str | None = None) -> Component:
    """A distribution of Python. Without a version: what pip installs is only bounded."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    purl = f"pkg:pypi/{name}" + (f"@{version}" if version else "")
    found = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if license_name:
        found["licenses"] = [{"license": {"name": license_name}}]
    return {key: value for key, value in found.items() if value}


def of_wheel(wheel: pathlib.Path) -> Component:
    """A wheel that lies in the one file, with its version."""
    told = metadata(wheel)
    license_name = told["License-Expression"] or (told["License"] or "").partition("\n")[0]
    return of_pypi(told["Name"], told["Version"], license_name)


def of_deb(deb: pathlib.Path) -> Component:
    """A package of Debian that lies in the one file."""
    shown = ["dpkg-deb", "--show", "--showformat", "${Package} ${Version} ${Architecture}", str(deb)]
    name, version, machine = subprocess.run(shown, check=True, capture_output=True, text=True).stdout.split()
    purl = f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch={machine}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def required(told: Message) -> list[Component]:
    """What klogtool always requires, with the bounds of its versions; extras are not in it."""
    from packaging.requirements import Requirement  # tools/onefile/build.py needs the rest without it

    found = []
    for wanted in map(Requirement, told.get_all("Requires-Dist") or ()):
        if wanted.marker is not None and "extra" in str(wanted.marker):
            continue
        component = of_pypi(wanted.name, None)
        if wanted.specifier:
            component["properties"] = [{"name": "klogtool:versions", "value": str(wanted.specifier)}]
        found.append(component)
    return found


def bill(version: str, components: list[Component]) -> dict[str, Any]:
    """A bill of materials of klogtool."""
    klogtool = of_pypi("klogtool", version)
    klogtool |= {"type": "application", "licenses": [{"license": {"id": "Apache-2.0"}}]}
    components = sorted(components, key=lambda each: each["bom-ref"])
    refs = [each["bom-ref"] for each in components]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": klogtool},
        "components": components,
        "dependencies": [{"ref": klogtool["bom-ref"], "dependsOn": refs}, *({"ref": each} for each in refs)],
    }


def of_one_file(version: str, wheels: list[pathlib.Path], debs: list[pathlib.Path]) -> dict[str, Any]:
    """The bill of the one file."""
    others = [wheel for wheel in wheels if not wheel.name.startswith("klogtool-")]
    return bill(version, [*map(of_wheel, others), *map(of_deb, debs)])


def text(bill_of_materials: dict[str, Any]) -> str:
    """As JSON."""
    return json.dumps(bill_of_materials, indent=1) + "\n"


def put_into(wheel: pathlib.Path) -> None:
    """Put the bill into a wheel; the `wheel` package writes its RECORD anew."""
    told = metadata(wheel)
    with tempfile.TemporaryDirectory() as folder:
        unpack = [sys.executable, "-m", "wheel", "unpack", "--dest", folder, str(wheel)]
        subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
        (tree,) = pathlib.Path(folder).iterdir()
        (info,) = tree.glob("*.dist-info")
        (info / "sboms").mkdir()
        (info / "sboms/klogtool.cdx.json").write_text(text(bill(told["Version"], required(told))))
        wheel.unlink()
        pack = [sys.executable, "-m", "wheel", "pack", "--dest-dir", str(wheel.parent), str(tree)]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
    assert wheel.exists(), f"{wheel} got another name"


if __name__ == "__main__":
    for named in sys.argv[1:]:
        put_into(pathlib.Path(named))
