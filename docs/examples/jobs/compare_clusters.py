"""Two clusters compared: a log dir of each in, the records that only one of them has out, for each partition.

python compare_clusters.py LOGDIR OTHER_LOGDIR
"""

import sys

from pyspark.sql.functions import count, max, min

from klogtool.spark import session

spark = session()
paths = sys.argv[1:3]
one, other = (spark.read.format("klog").option("includeHeaders", True).load(path) for path in paths)
for path, alone in zip(paths, (one.exceptAll(other), other.exceptAll(one)), strict=True):
    found = alone.groupBy("topic", "partition").agg(count("*"), min("offset"), max("offset"))
    for row in found.orderBy("topic", "partition").collect():
        print(path, *row, sep="\t")
