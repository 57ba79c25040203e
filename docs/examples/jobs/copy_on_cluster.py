"""A log dir written anew on a cluster where machines are slow or die: a log dir on a shared file system in, a new one
beside it out. Spark starts slow tasks a second time on another machine, and those of a dead executor again.

python copy_on_cluster.py spark://HOST:7077 LOGDIR OUT
"""

import sys

from klogtool.spark import by_partition, session

settings = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",  # once half of the tasks of a stage are done,
    "spark.speculation.multiplier": "2",  # those that take twice as long as the median
}
master, log_dir, out = sys.argv[1:4]
spark = session(master, settings)
rows = spark.read.format("klog").option("includeHeaders", True).option("minPartitions", 64).load(log_dir)
by_partition(rows).write.format("klog").mode("append").save(out)
table = spark.read.format("klog").option("table", "batches").load(out).where("NOT is_control")
for row in table.groupBy("topic").agg({"records_count": "sum"}).orderBy("topic").collect():
    print(*row, sep="\t")
spark.stop()
