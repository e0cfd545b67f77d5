"""Sending a user's code to workers: the modules in the folder of a topology file.

What a Python file itself defines travels with the program, by value. What it imports from its own folder, workers on
other machines cannot import, nor can they the functions that a TOML or YAML file names: those modules are added to the
Spark application.
"""

from __future__ import annotations

import ast
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from foretide.topology import Topology
from foretide.topology.script import without_name

__all__ = ["modules_beside", "ship_modules"]


def modules_beside(file: Path, named: Iterable[str] = ()) -> tuple[Path, ...]:
    """Return the modules and packages in the folder of `file` that it needs, and those that they need in turn.

    Parameters
    ----------
    file : path
        The topology file; where it is Python, its imports count, also those inside functions.
    named : iterable of str
        Further modules by name.
    """
    folder = file.resolve().parent
    waiting = [*named, *(_imports(file) if file.suffix == ".py" else ())]
    found: dict[Path, None] = {}
    while waiting:
        path = _beside(folder, waiting.pop().partition(".")[0])
        if path is None or path in found or path == file.resolve():
            continue
        found[path] = None
        for source in [path] if path.is_file() else sorted(path.rglob("*.py")):
            waiting += _imports(source)
    return tuple(sorted(found))


def ship_modules(spark: SparkSession, file: Path, topology: Topology) -> tuple[Path, ...]:
    """Let the workers of `spark` import what is in the folder of a topology file; return what was sent."""
    file, _ = without_name(file)
    functions = (operator.function for operator in topology.operators)
    named = [function.partition(":")[0] for function in functions if isinstance(function, str)]
    paths = modules_beside(file, named)
    for path in paths:
        spark.sparkContext.addPyFile(str(path if path.is_file() else _packed(path)))
    return paths


def _beside(folder: Path, name: str) -> Path | None:
    module, package = folder / f"{name}.py", folder / name
    if module.is_file():
        return module
    return package if (package / "__init__.py").is_file() else None


def _imports(source: Path) -> Iterator[str]:
    """Yield the names of modules that a file imports anywhere in it; one that cannot be parsed fails when it runs."""
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _packed(package: Path) -> Path:
    """Return a package as a zip file that lasts as long as the Spark application."""
    folder = tempfile.mkdtemp(dir=SparkFiles.getRootDirectory())
    archive = shutil.make_archive(f"{folder}/{package.name}", "zip", package.parent, package.name)
    return Path(archive)
