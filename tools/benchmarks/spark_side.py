"""One side of spark_reads.py: a warm Spark that does what it is told, line by line, and says how many seconds it took.

    python spark_side.py kafka|klog [name=value]...

Words with `spark.` are settings, the others options of the source. A line is JSON: what to do, its options, and where
to write; perhaps another source and a schema. The answer is seconds and the count of rows, where that is known. Needs
nothing but PySpark, but for the source `nothing`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "4g",
}


def session(settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**CONF, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def count(table: Any, _: str) -> int:
    found: int = table.count()
    return found


def noop(table: Any, _: str) -> None:
    table.write.format("noop").mode("overwrite").save()


def parquet(table: Any, target: str) -> None:
    table.write.parquet(target)


def between(table: Any, _: str) -> int:
    found: int = table.where("offset between 300000 and 300999").count()
    return found


DEEDS: dict[str, Callable[[Any, str], int | None]] = {
    "count": count,
    "noop": noop,
    "parquet": parquet,
    "between": between,
}


def register_nothing(spark: Any) -> None:
    """A source that hands over the first record batch of a log again and again, as many rows as klog has."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    tasks = 4

    def batch_of(*asked: Any) -> Any:
        import klogtool

        made = sys.modules["__main__"].__dict__.setdefault("made", {})  # of a worker: all else is new for each task
        if asked not in made:
            made[asked] = next(iter(klogtool.scan(asked[0], columns=asked[1], jobs=1).to_reader()))
        return made[asked]

    class Reader(DataSourceReader):
        def __init__(self, options: Mapping[str, str], names: Sequence[str]) -> None:
            self.log, self.rows, self.names = options["log"], int(options["rows"]) // tasks, tuple(names)

        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(number) for number in range(tasks)]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            batch, left = batch_of(self.log, self.names), self.rows
            while left > 0:
                yield batch.slice(0, left)
                left -= batch.num_rows

    class Nothing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "nothing"

        def schema(self) -> str:
            return (
                "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
                "timestampType int"
            )

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self.options, schema.names)

    spark.dataSource.register(Nothing)


def export(spark: Any, options: Mapping[str, str], target: str) -> int:
    """What `klogtool spark export` does, in a session that is warm."""
    from klogtool.spark.exporting import HowToExport, begin_export, carry_out_export
    from klogtool.spark.starting import Session

    done = carry_out_export(Session(spark, "", is_local=True), begin_export(target, HowToExport(options), []))
    return sum(sum(message.rows.values()) for message in done)


def main() -> None:
    form, *words = sys.argv[1:]
    given = dict(word.split("=", 1) for word in words)
    spark = session({name: value for name, value in given.items() if name.startswith("spark.")})
    common = {name: value for name, value in given.items() if not name.startswith("spark.")}
    if form == "klog":
        register_nothing(spark)
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        options, target = common | asked["options"], asked["target"]
        shutil.rmtree(target, ignore_errors=True)
        begin = time.perf_counter()
        if asked["what"] == "export":
            rows: int | None = export(spark, options, target)
        else:
            reader = spark.read.format(asked.get("form", form)).options(**options)
            rows = DEEDS[asked["what"]](
                (reader.schema(asked["schema"]) if "schema" in asked else reader).load(), target
            )
        print(json.dumps([time.perf_counter() - begin, rows]), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
