from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.forecast import FORECASTERS


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    file = tmp_path / "rates.csv"
    values = 100 + np.random.default_rng(5).normal(0, 10, 60)
    rows = [f"{5 * number},{value:.1f}" for number, value in enumerate(values) if number != 40]
    file.write_text("\n".join(["second,rate", *rows]) + "\n")
    return file


def test_models_are_listed_with_cost_and_extra(runner: CliRunner) -> None:
    result = runner.invoke(app, ["forecast", "models"])
    assert result.exit_code == 0
    for name, kind in FORECASTERS.items():
        line = next(line for line in result.output.splitlines() if line.startswith(f"{name} "))
        assert kind.summary in line and kind.cost in line
    entries = json.loads(runner.invoke(app, ["forecast", "models", "--json"]).output)
    assert {entry["name"] for entry in entries} >= set(FORECASTERS)
    assert next(entry for entry in entries if entry["name"] == "bigru")["extra"] == "deep"


def test_a_backtest_writes_scores_and_pictures(runner: CliRunner, rates: Path, tmp_path: Path) -> None:
    out, page, picture = tmp_path / "out.json", tmp_path / "plots" / "out.html", tmp_path / "out.png"
    given = ["--csv", str(rates), "--value", "rate", "--time", "second", "--horizon", "3", "--models", "auto,basic"]
    asked = ["--json", str(out), "--plot", str(page), "--png", str(picture)]
    result = runner.invoke(app, ["forecast", "backtest", *given, *asked])
    assert result.exit_code == 0, result.output
    assert "59 rows, 60 bins of 5 s, 1 of them without a value (1 gap)" in result.output
    data = json.loads(out.read_text())
    assert data["origins"] == 35 and data["origins_with_gaps"] == 3 and data["missing"] == 1
    assert set(data["models"]) == {"auto", "basic"}
    measures = {"mape", "rmse", "mae", "mase", "wql", "pinball_90", "coverage_50", "coverage_90", "ms"}
    assert set(data["models"]["auto"]) >= measures
    ratio, low, high = data["models"]["basic"]["ratios"]["mape"]
    assert low < ratio < high and ratio == pytest.approx(
        data["models"]["basic"]["mape"] / data["models"]["auto"]["mape"]
    )
    assert data["models"]["auto"]["mape"] < data["models"]["basic"]["mape"] < 0.2
    text = page.read_text()
    assert "auto .9 quantile" in text and '<script src="http' not in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_many_series_are_tested_in_one_call(runner: CliRunner, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.csv" for name in ("one", "two")]
    random = np.random.default_rng(3)
    for file in files:
        rows = [f"{first:.1f},{second:.1f}" for first, second in random.gamma(9.0, 10.0, (40, 2))]
        file.write_text("\n".join(["in,out", *rows]) + "\n")
    given = [part for file in files for part in ("--csv", str(file))]
    given += ["--value", "in", "--value", "out", "--horizon", "2", "--models", "ses,basic", "--stride", "2"]
    result = runner.invoke(app, ["forecast", "backtest", *given, "--json", str(tmp_path / "out.json")])
    assert result.exit_code == 0, result.output
    assert "4 series: geometric means of the ratios to ses" in result.output
    data = json.loads((tmp_path / "out.json").read_text())
    assert [(Path(row["file"]).name, row["value"]) for row in data["series"]] == [
        ("one.csv", "in"),
        ("one.csv", "out"),
        ("two.csv", "in"),
        ("two.csv", "out"),
    ]
    assert data["series"][0]["origins"] == 10
    assert data["together"]["basic"]["mase"]["ratio"] > 1 and data["together"]["ses"]["wql"]["ratio"] == 1.0
    refused = runner.invoke(app, ["forecast", "backtest", *given, "--png", str(tmp_path / "all.png")])
    assert refused.exit_code == 2 and "draw one file and column at a time" in " ".join(refused.output.split())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--value", "speed", "--horizon", "3"], "expected a column 'speed', got the columns second, rate"),
        (["--value", "rate", "--horizon", "0"], "backtest.horizon"),
        (["--value", "rate", "--horizon", "3", "--models", "atuo"], "did you mean 'auto'?"),
        (["--value", "rate", "--horizon", "90"], "at least 110 bins"),
        (["--value", "rate", "--horizon", "3", "--set", "lr.window=2"], "a model among auto, basic"),
    ],
)
def test_what_is_wrong_is_one_message(runner: CliRunner, rates: Path, given: list[str], message: str) -> None:
    result = runner.invoke(app, ["forecast", "backtest", "--csv", str(rates), *given])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
