"""The wounds of a spec: done to what was built, in order, the same bytes every time."""

from __future__ import annotations

import pathlib

import pytest
from verifying import NOW_MS, found, ids

import klogtool
from klogtool.building import read_spec
from klogtool.errors import KlogError

SPEC = """\
partitions:
  - topic: orders
    log:
      - batch: {{records: [{{key: a, value: one}}, {{key: b}}]}}
      - batch: {{records: [{{key: c, value: three}}]}}
wounds: {}
"""
TORN = """
  - tear_at: {file: orders-0, at: -1}
  - unclean_stop: {}
  - forge_checkpoint: {checkpoint: recovery-point-offset-checkpoint, partition: orders-0, offset: 0}
"""


def built(tmp_path: pathlib.Path, wounds: str, name: str = "d") -> pathlib.Path:
    klogtool.build(read_spec(SPEC.format(wounds).encode()), tmp_path / name)
    return tmp_path / name


def test_a_built_log_dir_is_wounded(tmp_path: pathlib.Path) -> None:
    assert found(built(tmp_path, "[]", "sound")) == []
    torn = built(tmp_path, TORN)
    assert ids(found(torn, now_ms=NOW_MS)) == {"torn-batch", "checkpoint-entry"}
    assert not (torn / ".kafka_cleanshutdown").exists()
    again = built(tmp_path, TORN, "again")
    for path in torn.rglob("*"):
        assert path.is_dir() or path.read_bytes() == (again / path.relative_to(torn)).read_bytes()


def test_a_wound_makes_a_foreign_folder(tmp_path: pathlib.Path) -> None:
    assert ids(found(built(tmp_path, "[{add_file: {name: lost+found/x}}]"))) == {"foreign-folder"}


@pytest.mark.parametrize(
    ("wounds", "told"),
    [
        ("[{flip_bit: {file: orders-1}}]", "wounds[0].flip_bit of orders-1: no such file"),
        ("[{unclean_stop: {}}, {flip_bit: {file: orders-0, batch: 2}}]", "wounds[1].flip_bit of orders-0: there is no"),
        ("[{flip_bot: {}}]", "wounds[0]: there is no wound 'flip_bot'"),
        ("[{zero_tail: {file: orders-0, size: 1e9}}]", "wounds[0]: zero_tail: size: expected int, got str"),
        ("[1]", "wounds[0]: expected an object, got a number"),
        (str([{"zero_tail": {"file": "orders-0", "size": 1 << 26}}] * 17), "makes the log dir larger than"),
        (str([{"unclean_stop": {}}] * 1001), "wounds: expected a list of length <= 1000"),
    ],
)
def test_a_wound_that_does_not_fit_is_an_error_with_its_place(wounds: str, told: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(KlogError) as error:
        built(tmp_path, wounds)
    assert told in str(error.value)
    assert list(tmp_path.iterdir()) == []
