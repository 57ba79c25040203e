"""What `klogtool export` wrote on two brokers, read by Spark as docs/export.md says."""

from __future__ import annotations

import pathlib
import re
import shutil
from typing import Any

from live.test_spark_writes import in_order
from running import FIXTURES, ROOT, run_here

SCRIPT = re.compile(r"```python\n(.*?)```", re.DOTALL)
WHERE = '"s3a://bucket/export"'
AS_TEXT = "spark.sql.sources.partitionColumnTypeInference.enabled"
COLUMNS = ["topic", "partition", "offset", "key", "value", "timestamp", "timestampType", "headers"]


def test_the_exports_of_two_brokers_are_one_table(spark: Any, tmp_path: pathlib.Path) -> None:
    """Also where the names of all topics are numbers, and the cluster's id begins with what Spark hides files by."""
    log_dir = tmp_path / "logs"
    shutil.copytree(FIXTURES / "transactions/logdir/t-0", log_dir / "007-0")
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=_OjwraojRw6wG6q8hjwJyw\n")
    for broker in (1, 2):
        (tmp_path / "export").mkdir(exist_ok=True)
        output = tmp_path / f"export/broker={broker}"
        assert run_here(["export", str(log_dir), "--output", str(output)], tmp_path).status == 0
    (script,) = SCRIPT.findall((ROOT / "docs/export.md").read_text(encoding="utf-8"))
    assert WHERE in script
    names: dict[str, Any] = {}
    try:
        exec(script.replace(WHERE, repr(str(tmp_path / "export"))), names)
        rows = names["rows"]
        assert [row.broker for row in rows.select("broker").distinct().orderBy("broker").collect()] == ["1", "2"]
        once = rows.dropDuplicates(COLUMNS[:3])  # Spark 4.1.4 cannot `exceptAll` what comes of it
        logs = spark.read.format("klog").option("includeHeaders", True).load(str(log_dir))
        assert rows.count() == 2 * logs.count() > 0
        assert in_order(once.select(COLUMNS)) == in_order(logs.select(COLUMNS))
    finally:
        spark.conf.unset(AS_TEXT)
