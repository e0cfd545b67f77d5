"""What Spark prints while it starts: errors alone, so that a command's own output can be read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["quiet_start"]

_VARIABLE = "SPARK_SUBMIT_OPTS"
_PROPERTY = "-Dlog4j2.configurationFile="
_ERRORS_ONLY = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
# They log the stack trace of a failed operator, in several places; the error that is raised says all there is to it.
_REPEATED = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
)


@contextmanager
def quiet_start() -> Iterator[None]:
    """Let a Spark that is started in this block log errors only, unless the user has configured its logging."""
    options = os.environ.get(_VARIABLE, "")
    if _PROPERTY in options:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="foretide-") as folder:
        file = Path(folder, "log4j2.properties")
        off = [f"logger.off{i}.name = {name}\nlogger.off{i}.level = off\n" for i, name in enumerate(_REPEATED)]
        file.write_text("".join([_ERRORS_ONLY, *off]), encoding="utf-8")
        os.environ[_VARIABLE] = f"{options} {_PROPERTY}{file.as_uri()}".strip()
        try:
            yield
        finally:
            os.environ[_VARIABLE] = options
