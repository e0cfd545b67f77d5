"""Records that Spark keeps of an application for its web pages, as plain data."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["RecordReader"]


class RecordReader:
    """Reads records of Scala as text, which takes one call of the virtual machine and not one for each field.

    Parameters
    ----------
    context : SparkContext
        The application's.
    """

    def __init__(self, context: Any) -> None:
        self._jvm = context._jvm
        self._mapper: Any = None

    def read(self, record: Any) -> Any:
        """Return a record, or a sequence of them, as plain data."""
        if self._mapper is None:
            package = self._jvm.com.fasterxml.jackson
            mapper = package.databind.ObjectMapper()
            self._mapper = mapper.registerModule(package.module.scala.DefaultScalaModule())
        return json.loads(self._mapper.writeValueAsString(record))
