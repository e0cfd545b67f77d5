"""``foretide warm-up``: every kernel is compiled, and what is there is not compiled again."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import foretide
from foretide._numba import cached_files
from foretide.cli import app
from foretide.commands.machine import kernels

SOURCE = Path(foretide.__file__).parent


def test_every_kernel_is_compiled() -> None:
    # In a cache that is full, this reads; what it compiles nevertheless, others need not.
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 0 and re.search(r"compiled \d+ of \d+ kernels", result.output), result.output
    for path in SOURCE.rglob("*.py"):
        if "import njit" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(("foretide", *path.relative_to(SOURCE).with_suffix("").parts)))
    found = kernels.kernels()
    assert len(found) > 70
    assert not [kernel.__name__ for kernel in found if not cached_files(kernel)]
    again = json.loads(CliRunner().invoke(app, ["warm-up", "--json"]).stdout)
    assert again["compiled"] == 0 and again["kernels"] >= len(found)


def test_a_cache_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "WORK", ())
    monkeypatch.setattr(kernels, "count_files", lambda: 0)
    result = CliRunner().invoke(app, ["warm-up"])
    assert result.exit_code == 2 and "NUMBA_CACHE_DIR" in result.output
