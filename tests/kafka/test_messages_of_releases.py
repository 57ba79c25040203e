"""How many messages of three releases `explain` knows: counted from the classes in their jars, so of any release."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import ROOT

from .brokers import fetched

sys.path.append(str(ROOT / "tools"))
from class_file import LOGGED, THROWN, ClassFile
from kafka_messages import is_known, messages_of

pytestmark = [pytest.mark.kafka, pytest.mark.shared]
JARS = ("storage", "raft", "metadata", "server", "server-common", "clients")
# Of each release: messages that are logged as errors and those that are thrown; known ones, and all that there are.
COUNTS = {
    "3.9.2": {LOGGED: (85, 110), THROWN: (265, 720)},
    "4.3.1": {LOGGED: (99, 124), THROWN: (312, 784)},
    "4.4.0": {LOGGED: (113, 139), THROWN: (332, 825)},
}


@pytest.mark.parametrize("release", COUNTS)
def test_explain_knows_as_many_messages_as_it_did(release: str) -> None:
    """A message that is not known any more, or a rule that takes fewer out of the classes, changes a number."""
    jars = fetched(release).cache_home() / release / "jars"
    found = messages_of(jars / f"kafka-{name}-{release}.jar" for name in JARS)
    told = {
        kind: (sum(is_known(text) for of, text in found if of == kind), sum(of == kind for of, _ in found))
        for kind in (LOGGED, THROWN)
    }
    assert told == COUNTS[release]


def test_the_page_has_these_numbers() -> None:
    page = " ".join((ROOT / "docs/explain.md").read_text(encoding="utf-8").split())
    logged, thrown = ([COUNTS[release][kind] for release in ("4.3.1", "4.4.0", "3.9.2")] for kind in (LOGGED, THROWN))
    for told in (
        "{} of {} in 4.3.1, {} of {} in 4.4.0, {} of {} in 3.9.2".format(*(n for pair in logged for n in pair)),
        "{} of {}, {} of {} and {} of {}:".format(*(n for pair in thrown for n in pair)),
    ):
        assert told in page


SOURCE = """
public class Says {
    static final String NAME = "recovery-point";
    final org.slf4j.Logger log = null;
    void says(String file, long size, boolean odd) {
        log.error("Cannot read " + file + " of " + size + " bytes");
        log.error(String.format("%s has %d bytes", NAME, size), file);
        log.error("No {} in " + (odd ? "an odd" : "an even") + " place", file);
        log.info("not an error at all");
        IllegalStateException thrown = new IllegalStateException(NAME + " is " + size);
        if (odd) throw thrown;
        throw new RuntimeException("Ended by " + file, thrown);
    }
}
"""
LOGGER = "package org.slf4j; public interface Logger { void error(String s, Object... o); void info(String s); }"


@pytest.mark.parametrize("language", ["8", "17"])
def test_what_is_made_of_texts_is_read_as_the_sources_have_it(language: str, tmp_path: Path) -> None:
    """A compiler makes a StringBuilder of `+` for Java 8, which 3.9.2 is compiled for, and a dynamic call later."""
    if shutil.which("javac") is None:
        pytest.skip("needs Java: no javac on the PATH (a JDK, 17 or later)")
    (tmp_path / "org/slf4j").mkdir(parents=True)
    (tmp_path / "org/slf4j/Logger.java").write_text(LOGGER)
    (tmp_path / "Says.java").write_text(SOURCE)
    command = ["javac", "-nowarn", "-Xlint:-options", "--release", language, "Says.java"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert set(ClassFile((tmp_path / "Says.class").read_bytes()).messages()) == {
        (LOGGED, "Cannot read {} of {} bytes"),
        (LOGGED, "{} has {} bytes"),
        (LOGGED, "No {} in an odd place"),
        (THROWN, "IllegalStateException: recovery-point is {}"),
        (THROWN, "RuntimeException: Ended by {}"),
    }
