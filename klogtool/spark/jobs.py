"""Sessions of a user's own jobs: Spark then runs the Python that runs the job.

Spark runs `python3` from the PATH for its data sources, unless PYSPARK_PYTHON names another one when the session
starts. If a job runs as `venv/bin/python job.py`, that Python does not have klogtool.
"""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from shutil import which
from typing import Any

from klogtool.disk.scratch import Scratch
from klogtool.errors import Unsupported
from klogtool.spark.causes import SessionCause
from klogtool.spark.starting import FAST, find_java_home, imported_pyspark

PYTHON = "PYSPARK_PYTHON"


def make_session(master: str | None, settings: dict[str, str]) -> Any:
    """See `klogtool.spark.session`."""
    imported_pyspark()
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        os.environ.setdefault(PYTHON, sys.executable)
        # Set JAVA_HOME to the Java of klogtool[java] for this process, if there is no other.
        scratch = Scratch.make("java")
        atexit.register(scratch.remove)
        home = find_java_home(scratch)
        if home is not None:
            os.environ["JAVA_HOME"] = home
        builder = SparkSession.builder
        for name, value in {**FAST, "spark.pyspark.python": os.environ[PYTHON], **settings}.items():
            builder = builder.config(name, value)
        spark = (builder if master is None else builder.master(master)).getOrCreate()
    register_in(spark)
    return spark


def register_in(spark: Any) -> None:
    """See `klogtool.spark.register`."""
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none: its server chooses the Python
    if context is not None and PYTHON not in os.environ and not _is_this_python(context.pythonExec):
        if str(context.master).startswith("local"):
            context.pythonExec = sys.executable
        else:
            other = SessionCause.OTHER_PYTHON(python=str(context.pythonExec), name=PYTHON, own=sys.executable)
            warnings.warn(str(other), stacklevel=3)
    spark.dataSource.register(find_data_source())


def _is_this_python(name: str) -> bool:
    """Return whether that program belongs to the environment of the running Python."""
    program = which(name)
    return program is not None and os.path.dirname(os.path.abspath(program)) == os.path.dirname(sys.executable)


def find_data_source() -> type[Any]:
    """Return the class behind `format("klog")`. Raises Unsupported if PySpark is missing or too old."""
    try:
        import pyspark.sql.datasource as api
    except ImportError as error:
        raise Unsupported(SessionCause.NO_SPARK()) from error
    if not hasattr(api, "Filter"):
        raise Unsupported(SessionCause.NO_SPARK())
    from klogtool.spark.source import KlogDataSource

    return KlogDataSource
