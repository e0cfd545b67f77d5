"""What goes wrong in the process in which Spark asks a stage for its next batch, as data for the driver.

Spark hands the driver nothing but the text of a stack trace, so the reader leaves its error in a file next to the
limits.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from foretide.errors import ForetideError, error_as_data, error_from_data
from foretide.files import replace_json

__all__ = ["leaves_fault", "leaving_fault", "read_fault"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


@contextmanager
def leaving_fault(path: str | Path) -> Iterator[None]:
    """Leave an error of ours in the file at `path` on its way out of the block."""
    try:
        yield
    except ForetideError as error:
        # On another machine there may be no such folder; then the driver has Spark's stack trace.
        with suppress(OSError):
            replace_json(path, error_as_data(error))
        raise


def leaves_fault(method: _Method) -> _Method:
    """Make a method of a reader leave its error in the file at ``self.fault_path``."""

    @functools.wraps(method)
    def wrapped(self: Any, *args: Any) -> Any:
        with leaving_fault(self.fault_path):
            return method(self, *args)

    return wrapped  # type: ignore[return-value]


def read_fault(path: str | Path) -> ForetideError | None:
    """Return the error that a reader left, if it left one."""
    file = Path(path)
    return error_from_data(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None
