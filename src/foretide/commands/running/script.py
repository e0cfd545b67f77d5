"""A user's script, run as Python itself would run it."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType

from foretide.errors import ConfigError

__all__ = ["check_script", "run_script"]


def check_script(path: Path) -> None:
    """Raise a `ConfigError` unless there is a script at `path` that can be read."""
    expected = "a Python script"
    if path.is_dir():
        raise ConfigError("job", expected=expected, got=f"the folder {str(path)!r}", remedy="name the file in it")
    try:
        path.open("rb").close()
    except OSError as error:
        raise ConfigError("job", expected=expected, got=f"{str(path)!r}: {(error.strerror or '').lower()}") from error


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Run a script as ``python PATH ARGUMENTS`` does, in this process.

    It is the module ``__main__``, its folder comes first on the path, ``sys.argv`` is its own. What it raises leaves
    this function as it is; an uncaught error is shown without the frames in between. The module stays, for what runs
    when the interpreter ends.
    """
    file = str(path.absolute())
    loader = SourceFileLoader("__main__", file)
    main = ModuleType("__main__")
    vars(main).update(__file__=file, __builtins__=builtins, __loader__=loader, __cached__=None)
    sys.modules["__main__"] = main
    sys.argv = [str(path), *arguments]
    if not sys.flags.safe_path:
        sys.path.insert(0, str(path.resolve().parent))
    _show_errors_from(file)
    code = loader.source_to_code(path.read_bytes(), file)
    exec(code, vars(main))


def _show_errors_from(file: str) -> None:
    """Let the traceback of an uncaught error begin in the script; what lies before it is none of its business."""
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename != file:
            trace = trace.tb_next
        shown(kind, error.with_traceback(trace), trace)

    sys.excepthook = show
