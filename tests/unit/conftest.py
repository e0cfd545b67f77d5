"""What the tests of several packages share."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """Run commands as in a plain terminal of 120 columns."""
    monkeypatch.delenv("FORETIDE_TRACEBACK", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner()
