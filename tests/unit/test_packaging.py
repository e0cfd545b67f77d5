"""What is shipped: every file of the package is in the wheel, whoever adds it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import foretide
from foretide._version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGE = ROOT / "src" / "foretide"


def test_every_data_file_is_named_in_the_package_data() -> None:
    found = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    data = {path for path in found if path.suffix != ".py"}
    named = {
        path for pattern in PROJECT["tool"]["setuptools"]["package-data"]["foretide"] for path in PACKAGE.glob(pattern)
    }
    assert data and not data - named


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_the_version_is_that_of_the_package() -> None:
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "foretide._version.__version__"}
    assert foretide.__version__ == __version__


def test_every_extra_of_the_makefile_exists() -> None:
    line = next(
        line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if line.startswith("EXTRAS")
    )
    named = line.partition("?=")[2].strip().split(",")
    assert set(named) <= set(PROJECT["project"]["optional-dependencies"])
