"""--metrics: what Prometheus reads is what the answer says."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from running import FIXTURES, Done, run_here

from klogtool.render.metrics import gauge, metrics_text

KlogTool = Callable[..., Done]
KILLED = next((FIXTURES / "killed-mid-append").rglob("logdir"))
NOW = ("--now", "2026-01-01")


def metrics_in(path: pathlib.Path) -> dict[str, dict[tuple[str, ...], float]]:
    """By name, the values by their labels other than command and paths."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(path.read_text()):
        assert (family.type, bool(family.documentation)) == ("gauge", True)
        for sample in family.samples:
            labels = {**sample.labels}
            assert labels.pop("command") in ("verify", "doctor")
            assert labels.pop("paths") == str(KILLED)
            found.setdefault(sample.name.removeprefix("klogtool_"), {})[*labels.values()] = sample.value
    return found


def test_of_verify(klogtool: KlogTool, tmp_path: pathlib.Path) -> None:
    done = klogtool("verify", KILLED, *NOW, "--json", "--metrics", tmp_path / "v.prom")
    *_, summary = map(json.loads, done.out.decode().splitlines())
    metrics = metrics_in(tmp_path / "v.prom")
    for name in ("bytes", "records", "partitions"):
        assert metrics[f"checked_{name}"] == {(): summary[name]}
    assert metrics["last_run_exit_status"] == {(): done.status}
    by_severity = {"error": 0.0, "warning": 0.0, "info": 0.0}
    for (_, severity), count in metrics["findings"].items():
        by_severity[severity] += count
    assert list(by_severity.values()) == [summary["errors"], summary["warnings"], summary["infos"]]


def test_of_doctor(klogtool: KlogTool, tmp_path: pathlib.Path) -> None:
    done = klogtool("doctor", KILLED, *NOW, "--metrics", tmp_path / "d.prom")
    metrics = metrics_in(tmp_path / "d.prom")
    assert metrics["start"] == {("yes",): 0, ("loses-data",): 1, ("refuses",): 0}
    assert metrics["last_run_exit_status"] == {(): done.status}


def test_files_of_several_commands_have_one_text_for_a_name(klogtool: KlogTool, tmp_path: pathlib.Path) -> None:
    """The collector of node_exporter joins all files, and refuses a metric with two texts."""
    texts: dict[str, str] = {}
    for command in ("verify", "doctor"):
        klogtool(command, KILLED, *NOW, "--metrics", tmp_path / "m.prom")
        for family in text_string_to_metric_families((tmp_path / "m.prom").read_text()):
            assert texts.setdefault(family.name, family.documentation) == family.documentation


@pytest.mark.parametrize("path", ['a"b', "a\\b", "a\nb", "a\udcffb", "ä", "a{} 1 # HELP b"])
def test_any_name_of_a_folder_is_a_label(path: str) -> None:
    (family,) = text_string_to_metric_families(metrics_text("verify", [path], [gauge("x", "X.", 1)]))
    (sample,) = family.samples
    assert sample.value == 1
    assert sample.labels["paths"] == path or "\udcff" in path


@pytest.mark.slow
def test_no_other_file_is_replaced(klogtool: KlogTool, tmp_path: pathlib.Path) -> None:
    log_dir = tmp_path / "logs"
    shutil.copytree(KILLED, log_dir)
    (tmp_path / "mine").write_text("mine")
    for place, status in ((tmp_path / "mine", 3), (log_dir / "m.prom", 3), (tmp_path / "no/m.prom", 2)):
        for command in ("verify", "doctor"):
            assert klogtool(command, log_dir, *NOW, "--metrics", place).status == status
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (log_dir / "m.prom").exists()
    for _ in range(2):
        klogtool("verify", log_dir, *NOW, "--metrics", tmp_path / "m.prom")
    assert [name for name in os.listdir(tmp_path) if "m.prom" in name] == ["m.prom"]


def test_what_a_killed_run_left_is_in_nobodys_way(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container every run has the same process id."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    (tmp_path / "m.prom.1.part").write_bytes(b"cut")
    done = run_here(["verify", str(KILLED), *NOW, "--metrics", str(tmp_path / "m.prom")], tmp_path)
    assert metrics_in(tmp_path / "m.prom")["last_run_exit_status"] == {(): done.status}
    assert "exists already" not in done.told


def test_of_several_releases_there_are_none(klogtool: KlogTool, tmp_path: pathlib.Path) -> None:
    """A file says what one release would do."""
    done = klogtool("doctor", KILLED, "--matrix", "--metrics", tmp_path / "m.prom")
    assert done.status == 2
    assert "--metrics does not go with --matrix." in done.err
