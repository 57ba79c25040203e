"""What Spark reads of some questions, by its own kafka source or by klog: a program, since no Spark can load both.

    python rows.py kafka|klog QUESTIONS.json ANSWERS.pickle [name=value]...

Further words are options of all questions; `jars=` is Spark's. Needs nothing but the standard library and PySpark.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Answer = dict[str, Any]
AT_A_TIME = {"kafka": 8, "klog": 2}  # consumers wait more than they work
CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
    "spark.driver.memory": "1g",
}


def session(cores: int, jars: str | None) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(
        f"local[{cores},3]"
    )  # the kafka source now and then closes a consumer that another task has
    for name, value in CONF.items():
        builder = builder.config(name, value)
    spark = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def read(spark: Any, form: str, options: dict[str, str]) -> Answer:
    table = spark.read.format(form).options(**options).load()
    return {"schema": table.schema.simpleString(), "rows": rows_of(table)}


def follow(spark: Any, form: str, name: str, options: dict[str, str]) -> Answer:
    """A stream, as far as there is something now; with the offsets behind each of its batches."""
    seen = re.sub(r"\W", "_", name)
    table = spark.readStream.format(form).options(**options).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = table.writeStream.format("memory").queryName(seen).trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
        steps = [as_dict(step)["sources"][0] for step in query.recentProgress]
    ends = [ends_of(of_json(step["endOffset"])) for step in steps if step["numInputRows"]]
    return {"schema": table.schema.simpleString(), "rows": rows_of(spark.table(seen)), "ends": ends}


def as_dict(step: Any) -> dict[str, Any]:
    """How a stream went on, which Spark 4.0 gives as a dictionary, and later ones as an object."""
    found: dict[str, Any] = step if isinstance(step, dict) else json.loads(step.json)
    return found


def of_json(told: Any) -> Any:
    return json.loads(told) if isinstance(told, str) else told


def ends_of(told: Any) -> Any:
    """Offsets of a checkpoint as Spark's kafka source has them; klog's have the topic id as well."""
    if "version" not in told:
        return told
    return {topic: {n: found["end"] for n, found in each.items()} for topic, each in told["topics"].items()}


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """In order of topic, partition and offset. Times as microseconds: as Python has them they depend on the zone."""
    from pyspark.sql import functions

    names = [name for name in table.columns if name != "timestamp"]
    found = table.select(*names, functions.unix_micros("timestamp").alias("timestamp")).collect()
    return sorted((plain(row.asDict(recursive=True)) for row in found), key=lambda row: row[:3])


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = row.get("headers")
    pairs = None if headers is None else [(h["key"], as_bytes(h["value"])) for h in headers]
    return (
        *(row["topic"], row["partition"], row["offset"], row["timestamp"], row["timestampType"]),
        *(as_bytes(row["key"]), as_bytes(row["value"]), pairs),
    )


def as_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def answer(spark: Any, form: str, name: str, question: dict[str, Any], common: dict[str, str]) -> Answer:
    try:
        options = common | question["options"]
        return follow(spark, form, name, options) if question.get("stream") else read(spark, form, options)
    except Exception as error:  # whatever Spark says is the answer
        return {"error": str(error)}


def main() -> None:
    form, questions, target, *words = sys.argv[1:]
    common = dict(word.split("=", 1) for word in words)
    spark = session(AT_A_TIME[form], common.pop("jars", None))
    with open(questions, encoding="utf-8") as file:
        asked = json.load(file)
    with ThreadPoolExecutor(AT_A_TIME[form]) as pool:
        found = dict(pool.map(lambda name: (name, answer(spark, form, name, asked[name], common)), asked))
    with open(target, "wb") as file:
        pickle.dump(found, file)
    spark.stop()


if __name__ == "__main__":
    main()
