"""Topologies declared in a Python file, which is run to get them."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foretide.errors import ForetideError, TopologyError
from foretide.topology.builder import Flow
from foretide.topology.document import file_error, read_text
from foretide.topology.graph import Topology

__all__ = ["run_script"]

_NAMES = ("topology", "build")


def run_script(path: Path) -> Topology:
    """Run the Python file at `path` and return the topology that it declares."""
    read_text(path)
    with _folder_on_path(path):
        try:
            # Not registered as a module: workers of a cluster could not import it, so its functions travel by value.
            names = runpy.run_path(str(path), run_name="__topology__")
            name = next((name for name in _NAMES if name in names), None)
            found = names[name] if name else None
            made = found() if callable(found) else found
            if isinstance(made, Topology | Flow):
                return made if isinstance(made, Topology) else made.build()
        except ForetideError:
            raise
        except Exception as error:
            raise _failed(path, error) from error
    got = "neither" if name is None else f"{name!r} of type {type(made).__name__}"
    remedy = "end the file with topology = job.build()"
    raise file_error(path, None, "a variable `topology`, or a function `topology()` or `build()`", got, remedy)


def _failed(path: Path, error: Exception) -> TopologyError:
    calls = [call for call in traceback.extract_tb(error.__traceback__) if Path(call.filename) == path]
    line = error.lineno if isinstance(error, SyntaxError) else calls[-1].lineno if calls else None
    reason = error.msg if isinstance(error, SyntaxError) else str(error)
    return file_error(path, line, "Python that runs", f"{type(error).__name__}: {reason}", "correct this line")


@contextmanager
def _folder_on_path(path: Path) -> Iterator[None]:
    """Let the file import its neighbours, as it could if Python ran it."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
