"""docs/beside-a-broker.md: its units, manifests and rules are what their readers take, and their commands run."""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from running import FIXTURES, KLOGTOOL, ROOT, run_here

from klogtool.cli.main import cli

Path = pathlib.Path
PAGE = (ROOT / "docs/beside-a-broker.md").read_text(encoding="utf-8")
UNITS = re.findall(r"^`/etc/systemd/system/([\w.-]+)`:\n\n```ini\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
MANIFESTS = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)]
SOUND, KILLED = FIXTURES / "retention/logdir", FIXTURES / "killed-mid-append/logdir"
IN_POD, STATE, METRICS = "/var/lib/kafka/data", "/state", "/var/lib/node_exporter"


def containers(value: Any) -> Iterator[dict[str, Any]]:
    """All containers in a manifest."""
    if isinstance(value, dict):
        for name, inside in value.items():
            yield from inside if name in ("containers", "initContainers") else containers(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from containers(inside)


def words_of(container: dict[str, Any]) -> list[str]:
    """The words of klogtool in a container."""
    script = " ".join(container["args"])
    return shlex.split(script.partition("klogtool ")[2].partition(";")[0] if "klogtool " in script else script)


def run_at(words: list[str], log_dir: Path, tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """Run with an empty home and environment, from the root folder; the places of the page are folders here."""
    places = {IN_POD: str(log_dir), STATE: str(tmp_path), METRICS: str(tmp_path), "%S/klogtool": str(tmp_path)}
    for place, here in places.items():
        words = [word.replace(place, here) for word in words]
    return subprocess.run([*KLOGTOOL, *words], cwd="/", env={"HOME": "/nowhere"}, capture_output=True, timeout=60)


def commands() -> list[list[str]]:
    lines = [line for _, text in UNITS for line in text.splitlines() if line.startswith("ExecStart=")]
    of_pods = [words_of(one) for manifest in MANIFESTS for one in containers(manifest) if "klogtool" in one["image"]]
    return [*(shlex.split(line)[1:] for line in lines), *of_pods]


@pytest.mark.parametrize("words", commands(), ids=lambda words: "-".join(words[:1]))
def test_the_commands_run(words: list[str], tmp_path: Path) -> None:
    done = run_at(words, SOUND, tmp_path)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
    if "scrub" in words:
        assert (tmp_path / "scrub").exists()
        assert ("--metrics" in words) == (tmp_path / "klogtool-scrub.prom").exists()


def test_there_is_a_command_of_each_kind() -> None:
    assert [words[0] for words in commands()] == ["scrub", "scrub", "scrub", "doctor"]


def test_a_log_is_mounted_read_only_and_the_state_is_not_in_it() -> None:
    for manifest in MANIFESTS:
        for one in containers(manifest):
            if "klogtool" in one["image"]:
                mounts = {mount["mountPath"]: mount for mount in one["volumeMounts"]}
                assert mounts[IN_POD]["readOnly"] is True
                assert not any(mount.get("readOnly") for path, mount in mounts.items() if path != IN_POD)
                assert one["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_rules_ask_for_metrics_that_there_are(tmp_path: Path) -> None:
    (rules,) = [manifest for manifest in MANIFESTS if "groups" in manifest]
    expressions = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    words = ["scrub", str(KILLED), "--recovery-point", "100", "--state", str(tmp_path / "state"), "--metrics"]
    assert run_here([*words, str(tmp_path / "m.prom")], tmp_path).status == 1
    written = (tmp_path / "m.prom").read_text()
    names = {name for expression in expressions for name in re.findall(r"klogtool_\w+", expression)}
    assert len(names) == len(expressions) == 3
    for name in names:
        assert f'{name}{{command="scrub",' in written
    for label in ("severity", "id", "paths"):
        assert f'{label}="' in written


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """It wants to find the program."""
    for name, text in UNITS:
        (tmp_path / name).write_text(text.replace("/usr/local/bin/klogtool", "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name, _ in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if "klogtool" in line], done.stderr


def test_every_word_of_the_page_is_an_option() -> None:
    known = {
        option
        for name in ("scrub", "doctor", "verify")
        for param in cli.get_command(None, name).params  # type: ignore[arg-type,union-attr]
        for option in param.opts
    }
    for words in commands():
        assert {word for word in words if word.startswith("--")} <= known


TORN = {"torn tail": "torn-tail-0", "flipped bit": "flip-bit-0"}


@pytest.mark.parametrize(
    ("state", "status"),
    [("sound", 0), ("empty", 0), ("a new disk", 0), ("torn tail", 0), ("flipped bit", 1), ("refuses", 1), ("none", 2)],
)
def test_the_statuses_before_a_start(state: str, status: int, tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    match state:
        case "sound":
            shutil.copytree(SOUND, log_dir)
        case "empty":
            log_dir.mkdir()
        case "a new disk":
            (log_dir / "lost+found").mkdir(parents=True)
        case "none":
            pass
        case _:
            log_dir.mkdir()
            shutil.copy(KILLED / "meta.properties", log_dir)
            shutil.copytree(KILLED / TORN.get(state, "torn-tail-0"), log_dir / TORN.get(state, "torn-tail-0"))
            if state == "refuses":
                (log_dir / "no partition").mkdir()
    words = next(words for words in commands() if words[0] == "doctor")
    done = run_at(words, log_dir, tmp_path)
    assert (done.returncode, b"Traceback" in done.stderr) == (status, False), done.stdout + done.stderr
    assert (b"empty" in done.stderr) == (state in ("empty", "a new disk"))


@pytest.mark.nightly
def test_promtool_takes_the_rules_and_what_the_commands_write(tmp_path: Path) -> None:
    """Prometheus's own parser and linter."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool here (Debian's package prometheus)")
    (rules,) = [manifest for manifest in MANIFESTS if "groups" in manifest]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules))
    checked = subprocess.run([promtool, "check", "rules", tmp_path / "rules.yml"], capture_output=True)
    assert checked.returncode == 0, checked.stderr
    for words in (["verify"], ["doctor"], ["scrub", "--state", f"{tmp_path}/state"]):
        run_here([*words, str(KILLED), "--metrics", f"{tmp_path}/m.prom"], ROOT)
        linted = subprocess.run(
            [promtool, "check", "metrics"], input=(tmp_path / "m.prom").read_bytes(), capture_output=True
        )
        assert (linted.returncode, linted.stderr) == (0, b""), words
