"""What `klogtool export` wrote to S3, read by Spark's own s3a as docs/export.md shows it, word for word."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pyspark
import pytest
from kafka.kafka import cache_folder
from live.conftest import FOR_S3
from live.test_spark_exports import SCRIPT
from live.test_spark_s3 import S3, s3
from running import FIXTURES, ROOT, run_here

__all__ = ["s3"]

HERE = pathlib.Path(__file__).parent
FROM_SPARK = "org.slf4j,io.netty,org.apache.httpcomponents,commons-codec,commons-logging"
SHOW = """
rows.groupBy("broker", "topic").count().orderBy("broker", "topic").show()
print("once", rows.dropDuplicates(["topic", "partition", "offset"]).count())
"""
SHOWN = """\
+------+-----+-----+
|broker|topic|count|
+------+-----+-----+
|     1|  007|   52|
|     2|  007|   52|
+------+-----+-----+

once 52
"""


def hadoop_version() -> str:
    """Of the Hadoop that PySpark brings."""
    jars = pathlib.Path(next(iter(pyspark.__path__))) / "jars"
    (jar,) = jars.glob("hadoop-client-api-*.jar")
    return jar.stem.removeprefix("hadoop-client-api-")


@pytest.fixture(scope="module")
def jars() -> list[pathlib.Path]:
    """hadoop-aws and what it needs, which Maven fetches once."""
    version = hadoop_version()
    home = cache_folder() / f"s3a-{version}"
    if not home.exists():
        if shutil.which("mvn") is None:
            pytest.skip("needs mvn, for hadoop-aws")
        cache_folder().mkdir(parents=True, exist_ok=True)
        fresh = tempfile.mkdtemp(prefix="making-", dir=cache_folder())
        goal = ["dependency:copy-dependencies", f"-Dhadoop.version={version}", f"-DexcludeGroupIds={FROM_SPARK}"]
        command = ["mvn", "-q", "-B", "-f", str(HERE / "s3a.xml"), *goal, f"-DoutputDirectory={fresh}"]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        os.rename(fresh, home)
    return sorted(home.glob("*.jar"))


@pytest.mark.timeout(900)
def test_spark_reads_exports_by_s3a(s3: S3, jars: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    shutil.copytree(FIXTURES / "transactions/logdir/t-0", tmp_path / "logs" / "007-0")
    s3.client().create_bucket(Bucket="bucket")
    for broker in (1, 2):
        uri = s3.uri("bucket", f"export/broker={broker}")
        assert run_here(["export", str(tmp_path / "logs"), "--output", uri], tmp_path).status == 0
    (script,) = SCRIPT.findall((ROOT / "docs/export.md").read_text(encoding="utf-8"))
    assert 's3a://bucket/export"' in script
    (tmp_path / "job.py").write_text(script + SHOW)
    settings = {
        "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.ui.enabled": "false",
    }
    conf = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    words = f"--master local[2] --jars {','.join(map(str, jars))} {conf} pyspark-shell"
    env = {**os.environ, **FOR_S3, "PYSPARK_SUBMIT_ARGS": words, "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, str(tmp_path / "job.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.lstrip() == SHOWN
