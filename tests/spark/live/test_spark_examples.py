"""Whole jobs, as people write them: from nothing, SQL, streams to Parquet, Spark Connect, Delta."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
from live.test_spark_session import needs_limits
from loading import data, make
from running import FIXTURES, ROOT

pytestmark = pytest.mark.timeout(900)  # each starts a Spark of its own: minutes on a busy machine
LOG_DIR = FIXTURES / "transactions" / "logdir"
PAGE = (ROOT / "docs/spark.md").read_text(encoding="utf-8")


def without_activation(tmp_path: pathlib.Path) -> dict[str, str]:
    """The environment of somebody whose `python3` is another one, which cannot even start."""
    decoy = tmp_path / "decoy"
    decoy.mkdir()
    (decoy / "python3").write_text("#!/bin/sh\necho another python >&2\nexit 1\n")
    (decoy / "python3").chmod(0o700)
    java = os.environ.get("JAVA_HOME") or pathlib.Path(shutil.which("java") or "").resolve().parents[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "VIRTUAL"))}
    return env | {"PATH": f"{decoy}:/usr/bin:/bin", "JAVA_HOME": str(java), "SPARK_LOCAL_IP": "127.0.0.1"}


def run(words: list[str], folder: pathlib.Path, env: dict[str, str]) -> str:
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_page_from_nothing_without_activation(tmp_path: pathlib.Path) -> None:
    shell = re.search(r"```sh\n(python3 -m venv.*?)```", PAGE, re.DOTALL)
    job = re.search(r"```python\n# job.py\n(.*?)```", PAGE, re.DOTALL)
    assert shell
    assert job
    (tmp_path / "job.py").write_text(job[1])
    lines = [line for line in shell[1].splitlines() if " -m venv " not in line and "/pip install" not in line]
    script = "\n".join(lines).replace("spark-venv/bin/klogtool", f"{sys.executable} -m klogtool")
    script = script.replace("spark-venv/bin/python", sys.executable)
    told = run(["/bin/sh", "-ec", script], tmp_path, without_activation(tmp_path))
    assert re.search(r"\|orders\|\s+0\|\s+k1\|\s+one\|\n\|orders\|\s+1\|\s+k2\|\s+two\|", told), told


REGISTER = """
from pyspark.sql import SparkSession
from klogtool.spark import register
spark = SparkSession.builder.master("local[1]").getOrCreate()
register(spark)
print("rows", spark.read.format("klog").load({path!r}).count())
"""


def test_a_session_of_ones_own_without_activation(tmp_path: pathlib.Path) -> None:
    script = REGISTER.format(path=str(LOG_DIR))
    assert "rows 148" in run([sys.executable, "-c", script], tmp_path, without_activation(tmp_path))


def test_where_the_python_cannot_be_set_any_more_one_line_says_what_to_export(monkeypatch: Any) -> None:
    from klogtool.spark import register

    class Cluster:
        class _sc:
            pythonExec, master = "no-such-python", "spark://host:7077"

        class dataSource:
            register = staticmethod(lambda _: None)

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with pytest.warns(UserWarning, match=f"export PYSPARK_PYTHON={sys.executable}"):
        register(Cluster())


@pytest.mark.parametrize("more", ["", f"OPTIONS (path '{LOG_DIR}')", f"LOCATION '{LOG_DIR}'"])
def test_a_table_is_an_error_that_names_the_view(spark: Any, more: str) -> None:
    """Spark would make it, and give it no options when it is read."""
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW name USING klog OPTIONS"):
        spark.sql(f"CREATE TABLE klog_table USING klog {more}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"splitBytes": "many"}, "not a size"),
        ({"path": "/no/where"}, "no such file or directory"),
    ],
)
def test_what_is_wrong_is_an_error_of_load(spark: Any, options: dict[str, str], words: str) -> None:
    with pytest.raises(Exception, match=words):
        spark.read.format("klog").options(**{"path": str(LOG_DIR), **options}).load()


def test_the_path_of_the_segment(spark: Any) -> None:
    table = spark.read.format("klog").option("includeMetadata", "true").load(str(LOG_DIR))
    paths = {row._path for row in table.select("_path").distinct().collect()}
    assert paths <= {str(path) for path in LOG_DIR.glob("*/*.log")}
    assert paths


# Whole jobs, as the page has them.


def job_of(name: str) -> str:
    found = re.search(rf"```python\n# {re.escape(name)}\n(.*?)```", PAGE, re.DOTALL)
    assert found, name
    return found[1]


def printed(name: str, folder: pathlib.Path) -> str:
    """The last line of a job of the page, run in a folder that has `logs`."""
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return run([sys.executable, "-c", job_of(name)], folder, env).splitlines()[-1]


def orders(folder: pathlib.Path, records: int) -> pathlib.Path:
    (folder / "logs").mkdir()
    return make(folder / "logs/orders-0", {0: [data(n) for n in range(records)]})


@needs_limits
@pytest.mark.parametrize("name", ["to_parquet.py", "to_delta.py"])
def test_a_stream_into_files_goes_on_where_it_ended(name: str, tmp_path: pathlib.Path) -> None:
    log = orders(tmp_path, 20) / f"{0:020d}.log"
    assert printed(name, tmp_path) == "20"
    log.write_bytes(log.read_bytes() + b"".join(data(n) for n in range(20, 25)))
    assert printed(name, tmp_path) == "25"


def test_spark_connect(tmp_path: pathlib.Path) -> None:
    orders(tmp_path, 20)
    make(tmp_path / "logs/others-0", {0: data(0)})
    assert printed("connect.py", tmp_path) == "20"
