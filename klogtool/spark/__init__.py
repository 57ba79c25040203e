"""Log dirs as tables of Spark: `spark.read.format("klog").load(PATH)`.

The data source. `source`, `source_reader`, `streaming`, `sink` and what begins sessions know Spark; the others are
plain Python and need pyarrow at most.

    source             the data source, as Spark calls it
    source_reader      queries, as Spark calls them: partitions of the scan, and their rows
    streaming          streams (PySpark 4.2 and later)
    options            the options of a query
    causes             what is wrong with a query, rows or a log, as values
    filters            Spark's filters as bounds of offsets and times
    batch_columns      the columns of batches: a row for each
    tables             the tables, their columns, the rows of three
    copies             which partitions lie under some paths, and which copy of each is read
    offsets            from which offset to which a partition is read; the largest timestamp of a segment
    tiered             partitions in remote storage as partition dirs
    owners             whose a partition dir is: cluster, node and log dir
    planning           which segments and bytes can have wanted rows, and which task reads them
    reading            records of a split as record batches
    left_out           what reading leaves out at damage, and why
    findings           the table `findings`
    notes              lines for the log of a job, escaped
    read_committed     what a read_committed consumer does not see
    following          streams: how far partitions have grown
    stream_progress    streams: how far each partition is read
    converting         keys and values as text or JSON; rows by day

The sink, `rows.write.format("klog")`:

    sink               its writer, as Spark calls it; rows put where it needs them
    write_options      its options, and which columns the rows have
    writing            what a task writes, and the commit
    written_columns    rows as columns that batches are encoded from

Files and headers:

    fetching           log dirs that lie elsewhere, for code that reads folders of this machine
    heads              headers of batches, with few bytes read
    head_columns       headers of batches as columns, by the kernel

Sessions, and klogtool's commands on Spark:

    jobs               sessions of a user's jobs
    starting           the session of klogtool's commands
    spreading          one function over many things, as tasks
    verifying          klogtool spark verify
    exporting          klogtool spark export
    growing_export     klogtool export: what is new, and the manifest
    export_store       klogtool export: a prefix of an object store
    compacting         klogtool spark compact
    sharing            one large partition, compacted by many tasks
    inventory          klogtool spark inventory
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Any:
    """Return a SparkSession in which `format("klog")` works and is fast, whatever `python3` is in the PATH.

    master: such as "local[4]". settings: Spark's; they override klogtool's. PYSPARK_PYTHON is set to the running
    Python, unless it is set already. If a session exists, it is returned, with the format registered. Raises
    Unsupported if PySpark or Java is missing.
    """
    from klogtool.spark.jobs import make_session

    return make_session(master, dict(settings or {}))


def register(spark: Any) -> None:
    """Register `format("klog")` in a session that does not find it by itself: klogtool came by --py-files, or the
    session was started by a Python other than the `python3` of the PATH.

    A local session then runs this Python. On a cluster that can no longer be set, and a warning says what to export.
    """
    from klogtool.spark.jobs import register_in

    register_in(spark)


def by_partition(rows: Any, partitions: int | None = None) -> Any:
    """Return the rows of a DataFrame as `write.format("klog")` needs them: all of a partition in one task, in order.

    The order is that of the column `offset`, else of `timestamp`. partitions: adds the column `partition`, by the key
    of each record as Kafka's producer does it; a record without a key goes by its value. Raises Refused if there is a
    column `partition` and a number of partitions, or neither.
    """
    from klogtool.spark.sink import deal

    return deal(rows, partitions)
