"""A typed `njit`, whose machine code outlives the process: the first of them compiles, the others read.

Numba's own cache keeps one index for each function, which processes that compile at the same time overwrite for each
other, and takes no notice of an edit to a file from which a kernel imports. Here, machine code lies in files that are
named after all they were made from.
"""

from __future__ import annotations

__all__ = ["cached_files", "is_kernel", "njit"]

import hashlib
import linecache
import os
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import compiler, config, serialize
from numba.core.dispatcher import Dispatcher

# Numba says little about the types of its inner parts.
_compiler, _config, _serialize = cast("tuple[Any, Any, Any]", (compiler, config, serialize))

_F = TypeVar("_F", bound=Callable[..., object])
_CONSTANTS = (bool, int, float, complex, str, bytes, np.generic)


def njit(function: _F) -> _F:
    """Compile `function` on first call, without the GIL, and keep the machine code on disk.

    It is kept where `NUMBA_CACHE_DIR` says, else beside the source, else in the user's cache: in the first of them
    that can be written, and it is read from wherever it lies. Code without a file is compiled in each process.

    >>> @njit
    ... def twice(x: int) -> int:
    ...     return x + x
    >>> twice(21)
    42
    """
    kernel: Any = numba.njit(nogil=True)(function)
    if os.path.isabs(function.__code__.co_filename):
        kernel._cache = _Cache(function)
    return cast("_F", kernel)


def is_kernel(value: object) -> bool:
    """Return whether `njit` made a function.

    >>> is_kernel(njit(lambda: 1)), is_kernel(len)
    (True, False)
    """
    return isinstance(value, Dispatcher)


def cached_files(kernel: Callable[..., object]) -> list[Path]:
    """Return the files in which the machine code of a kernel lies, one for each signature."""
    cache = getattr(kernel, "_cache", None)
    return cache.files() if isinstance(cache, _Cache) else []


class _Cache:
    """The machine code of one kernel on disk, as numba's dispatchers ask for it."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._code = function.__code__
        self.file = self._code.co_filename
        self.stamp = _stamp(function)
        self._name = f"{Path(self.file).stem}.{function.__qualname__}"
        self._folders = _folders(Path(self.file))

    @property
    def cache_path(self) -> str:
        """The folder that is tried first."""
        return str(self._folders[0])

    def files(self) -> list[Path]:
        """Return the files of this kernel as it stands."""
        found = (folder.glob(f"{self._name}.{self.stamp}.*.nbc") for folder in self._folders)
        return [path for paths in found for path in paths]

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature, or None."""
        target_context.refresh()
        name = self._file_name(signature, target_context.codegen())
        for folder in self._folders:
            # A file may go while it is looked for, and a disk may have lost part of it.
            with suppress(OSError, EOFError, pickle.UnpicklingError):
                return _compiler.CompileResult._rebuild(target_context, *pickle.loads((folder / name).read_bytes()))
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled for a signature, where that is possible."""
        if compiled.library.has_dynamic_globals:
            return
        data = _serialize.dumps(compiled._reduce())
        for folder in self._folders:
            with suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True)
                self._write(folder, self._file_name(signature, compiled.codegen), data)
                return

    def _write(self, folder: Path, name: str, data: bytes) -> None:
        """Write a file as a whole, and remove those of the kernel as it was before an edit."""
        unfinished = folder / f"{name}.{uuid.uuid4().hex}.tmp"
        try:
            unfinished.write_bytes(data)
            unfinished.replace(folder / name)
        finally:
            unfinished.unlink(missing_ok=True)
        for path in folder.glob(f"{self._name}.*.nbc"):
            if not path.name.startswith(f"{self._name}.{self.stamp}."):
                path.unlink(missing_ok=True)

    def _file_name(self, signature: Any, codegen: Any) -> str:
        """Return the name of a file, which stands for the signature, the function, and the machine."""
        machine = (sys.implementation.cache_tag, numba.__version__, codegen.magic_tuple())
        made_from = (*machine, signature, self._code.co_code, self._code.co_firstlineno)
        return f"{self._name}.{self.stamp}.{_digest(made_from)}.nbc"


def _folders(file: Path) -> list[Path]:
    """Return the folders for machine code of a source file, in the order in which they are tried."""
    own = f"{file.parent.name}_{_digest(str(file.parent))}"
    users = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    given = [Path(_config.CACHE_DIR) / own] if _config.CACHE_DIR else []
    return [*given, file.parent / "__pycache__", users / "foretide" / own]


def _stamp(function: Any) -> str:
    """Return what changes with the source of a kernel, and with all that it may use from other files."""
    file = function.__code__.co_filename
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file, function.__globals__))
    return _digest((text, sorted(_imported(function.__globals__, file))))


def _imported(names: dict[str, object], file: str) -> Iterator[tuple[str, str]]:
    """Yield constants, and the stamps of other files' kernels, that a file has imported."""
    for name, value in names.items():
        cache = getattr(value, "_cache", None)
        if isinstance(cache, _Cache):
            if cache.file != file:
                yield name, cache.stamp
        elif isinstance(value, _CONSTANTS) and not name.startswith("__"):
            yield name, repr(value)


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
