"""Finding the line of the user's code at which an exception arose."""

from __future__ import annotations

import linecache
import sysconfig
import traceback
from functools import cache
from pathlib import Path

__all__ = ["line_of"]

#: Where Spark's side of Foretide is: its frames call the user's code, and are none of it.
_OURS = f"{Path(__file__).parents[1]}/"
_LIBRARIES = tuple(
    f"{path}/" for name, path in sysconfig.get_paths().items() if name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def line_of(error: BaseException) -> str:
    r"""Return the line of the user's code at which `error` arose, as ``file:line: code``; empty where there is none.

    Inside a library it is the line that called it. A function that is itself part of an installed package counts as
    the user's code where nothing else does.

    >>> def bad(row):
    ...     return row['word']
    >>> try:
    ...     bad({})
    ... except KeyError as error:
    ...     line_of(error).endswith("return row['word']")
    True
    """
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(_OURS)
    ]
    own = [place for place in frames if not place[0].startswith(_LIBRARIES)]
    return _described(*(own[-1] if own else frames[0])) if frames else ""


@cache
def _described(file: str, line: int) -> str:
    code = linecache.getline(file, line).strip()
    return f"{file}:{line}: {code}" if code else f"{file}:{line}"
