"""Topologies declared in a Python file, which is run to get them."""

from __future__ import annotations

import difflib
import re
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

__all__ = ["run_script", "without_name"]

_NAMES = ("topology", "build")
_NAMED = re.compile(r"(.+\.py):(\w+)")


def without_name(path: str | Path) -> tuple[Path, str | None]:
    """Return the file that holds a topology, and the name that the topology has in it, where one is given.

    >>> without_name("jobs.py:hourly"), without_name("jobs.py")
    ((PosixPath('jobs.py'), 'hourly'), (PosixPath('jobs.py'), None))
    """
    found = _NAMED.fullmatch(str(path))
    return (Path(path), None) if found is None else (Path(found[1]), found[2])


def run_script(path: Path, wanted: str | None = None) -> Topology:
    """Run the Python file at `path` and return the topology that it declares, under the name that is `wanted`."""
    read_text(path)
    with _folder_on_path(path):
        try:
            # Not registered as a module: workers of a cluster could not import it, so its functions travel by value.
            names = runpy.run_path(str(path), run_name="__topology__")
            name = next((name for name in ((wanted,) if wanted else _NAMES) if name in names), None)
            found = names[name] if name else None
            made = found() if callable(found) else found
            if isinstance(made, Topology | Flow):
                return made if isinstance(made, Topology) else made.build()
        except ForetideError:
            raise
        except Exception as error:
            raise _failed(path, error) from error
    got = ("none" if wanted else "neither") if name is None else f"{name!r} of type {type(made).__name__}"
    if wanted:
        close = difflib.get_close_matches(wanted, [name for name in names if not name.startswith("_")], n=1)
        remedy = f"did you mean {close[0]!r}?" if close and name is None else "correct what follows the colon"
        raise file_error(path, None, f"a variable `{wanted}`, or a function `{wanted}()`, of a topology", got, remedy)
    remedy = "end the file with topology = job.build(), or name one: FILE.py:NAME"
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
