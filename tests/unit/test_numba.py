"""The cache of machine code: who finds what, after which edits."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from foretide._numba import cached_files, is_kernel

INNER = "from foretide._numba import njit\n\nFACTOR = {factor}\n\n\n@njit\ndef inner(x):\n    return x + {added}\n"
OUTER = """from foretide._numba import njit
from {inner} import FACTOR, inner


@njit
def outer(x):
    return _last(FACTOR * x)


@njit
def _last(x):
    return inner(x)
"""

Load = Callable[..., ModuleType]


@pytest.fixture(autouse=True)
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "users"))
    monkeypatch.setattr("numba.core.config.CACHE_DIR", "")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Return a function that writes two modules of kernels, imports them as a new process would, and returns one."""
    (tmp_path / "code").mkdir()

    def imported(name: str, text: str) -> ModuleType:
        path = tmp_path / "code" / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        # No bytecode: edits within a second must be seen.
        exec(compile(text, str(path), "exec"), vars(module))
        return module

    def load(factor: int = 1, added: int = 0) -> ModuleType:
        imported("inner_kernels", INNER.format(factor=factor, added=added))
        return imported("outer_kernels", OUTER.format(inner="inner_kernels"))

    return load


def misses(kernel: Any) -> int:
    return sum(kernel.stats.cache_misses.values())


def test_another_process_reads_what_the_first_compiled(load: Load, tmp_path: Path) -> None:
    first, second = load().outer, load().outer
    assert (first(3), misses(first)) == (3, 1)
    assert (second(3), misses(second)) == (3, 0)
    assert [path.parent for path in cached_files(second)] == [tmp_path / "code" / "__pycache__"]


@pytest.mark.parametrize(("edit", "found"), [({"added": 10}, 13), ({"factor": 2}, 6)])
def test_an_edit_of_an_imported_file_is_noticed(load: Load, edit: dict[str, int], found: int) -> None:
    before, after = load().outer, load(**edit).outer
    assert (before(3), after(3)) == (3, found)
    assert misses(after) == 1


def test_what_was_compiled_before_an_edit_goes(load: Load) -> None:
    before = load().outer
    before(3)
    load(added=1).outer(3)
    assert not cached_files(before)


def test_signatures_do_not_disturb_one_another(load: Load) -> None:
    # Each process has looked for its own signature before the other has written one.
    first, second, third = (load().outer for _ in range(3))
    assert (first(3), second(2.5)) == (3, 2.5)
    assert (third(3), third(2.5), misses(third)) == (3, 2.5, 0)
    assert len(cached_files(third)) == 2


def test_where_the_package_cannot_be_written_the_users_cache_is(load: Load, tmp_path: Path) -> None:
    (tmp_path / "code" / "__pycache__").write_text("no folder")
    kernel = load().outer
    kernel(3)
    (path,) = cached_files(kernel)
    assert path.is_relative_to(tmp_path / "users" / "foretide")


def test_a_folder_that_is_given_comes_first(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled, kernel = load().outer, None
    filled(3)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "given"))
    kernel = load().outer
    assert (kernel(3), misses(kernel)) == (3, 0)  # read from where the installation put it
    kernel(2.5)
    assert [path.is_relative_to(tmp_path / "given") for path in cached_files(kernel)] == [True, False]


def test_without_any_folder_it_compiles(load: Load, tmp_path: Path) -> None:
    (tmp_path / "code" / "__pycache__").write_text("no folder")
    (tmp_path / "users").write_text("no folder")
    kernel = load().outer
    assert (kernel(3), cached_files(kernel)) == (3, [])


def test_a_damaged_file_is_written_anew(load: Load) -> None:
    first = load().outer
    first(3)
    (path,) = cached_files(first)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    kernel, next_one = load().outer, load().outer
    assert (kernel(3), misses(kernel)) == (3, 1)
    assert (next_one(3), misses(next_one)) == (3, 0)


def test_other_functions_are_no_kernels() -> None:
    assert (is_kernel(print), cached_files(print)) == (False, [])
