"""The bill of materials of a wheel: what it always requires, with the bounds, and nothing of the extras."""

from __future__ import annotations

import json
import tomllib
from email.message import Message
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from running import ROOT, tool


@pytest.fixture(scope="module")
def make_sbom() -> ModuleType:
    return tool("make_sbom")


def told(*requires: str) -> Message:
    message = Message()
    for line in requires:
        message["Requires-Dist"] = line
    return message


def test_it_has_what_klogtool_requires_with_its_bounds(make_sbom: ModuleType) -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    found = make_sbom.required(told(*wanted, 'pyarrow>=15; extra == "arrow"'))
    assert [each["name"] for each in found] == [Requirement(line).name for line in wanted]
    assert [each["properties"][0]["value"] for each in found] == [str(Requirement(line).specifier) for line in wanted]


def test_what_only_some_systems_need_is_in_it(make_sbom: ModuleType) -> None:
    assert [each["name"] for each in make_sbom.required(told("a>=1; sys_platform == 'win32'", "B.c_d"))] == [
        "a",
        "b-c-d",
    ]


def test_the_same_contents_have_the_same_bill(make_sbom: ModuleType) -> None:
    parts = [make_sbom.of_pypi("b", "2", "MIT"), make_sbom.of_pypi("a", "1")]
    text = make_sbom.text(make_sbom.bill("1.0.0", parts))
    assert text == make_sbom.text(make_sbom.bill("1.0.0", parts[::-1]))
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["dependencies"][0]["dependsOn"] == ["pkg:pypi/a@1", "pkg:pypi/b@2"]
