"""Benchmarks of steered topologies tell of which commits and processors their runs are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import benchmark_module

OF_ALL = {"query": "q7", "peak_rate": 100.0, "slot_seconds": 10.0, "latency_p95_ms": 5.0}


@pytest.mark.parametrize("name", ["live_steered", "nexmark_steered"])
def test_a_report_names_the_commits_of_its_rows(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module: Any = benchmark_module(name)
    rows = [
        {**OF_ALL, "policy": policy, "round": number, "commit": f"c{number}", "processor": "X"}
        for number in (0, 1)
        for policy in (module.OURS, module.STATIC)
    ]
    told: dict[str, Any] = {}
    monkeypatch.setattr(sys, "argv", [name, "--smoke", "--results", str(tmp_path)])
    monkeypatch.setattr(module, "QUICK", tmp_path)
    monkeypatch.setattr(module, "measure", lambda *_: None)
    monkeypatch.setattr(module, "kept_rows", lambda _: rows)
    monkeypatch.setattr(module, "report", lambda *_, intro: told.update(intro=intro))
    module.main()
    assert told["intro"].endswith(" Runs by commit and processor: 2 of c0 (X), 2 of c1 (X).")
