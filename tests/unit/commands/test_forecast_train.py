from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.forecasting.forecast_train import parse_models
from foretide.commands.forecasting.forecast_train_view import TrainingView, report_view, to_dict
from foretide.errors import ConfigError
from foretide.forecast import Lr
from foretide.forecast.training.trainer import PairResult
from foretide.spark.training.frames import Problem
from foretide.spark.training.training import TrainingReport

REPORT = TrainingReport(
    results=[
        PairResult("api", "lr", "trained", 2, 0.5, {"mape": 0.125, "rmse": 3.0, "mae": math.nan}),
        PairResult("web", "lr", "failed", error="ForecastError: too short"),
        PairResult("web", "bigru", "kept", 1, note="the history is constant"),
    ],
    problems={"negative": Problem(2, "series web, time 1, value -3"), "time going backwards": Problem(1, "x")},
    series=2,
    values=100,
    missing=3,
    bin_s=5.0,
    seconds=1.25,
)


def refused(tmp_path: Path, **changes: str) -> str:
    """Return what the command says to arguments that it must refuse without starting Spark."""
    (tmp_path / "load.csv").write_text("time,value\n0,1\n")
    given = {"data": str(tmp_path / "load.csv"), "models": "lr", "out": str(tmp_path / "models")} | changes
    arguments = [part for name, value in given.items() for part in (f"--{name}", value)]
    result = CliRunner().invoke(app, ["forecast", "train", *arguments])
    assert result.exit_code == 2 and not (tmp_path / "models").exists()
    return " ".join(result.output.split())


def test_settings_of_forecasters_are_read_as_toml() -> None:
    found = parse_models("bigru,lr", ["bigru.hidden=8", "bigru.learning_rate=0.01", "lr.window = 20", "lr.kind=plain"])
    assert found == {"bigru": {"hidden": 8, "learning_rate": 0.01}, "lr": {"window": 20, "kind": "plain"}}


@pytest.mark.parametrize("text", ["lr.window", "window=3", "ridge.window=3", "lr.=3"])
def test_a_setting_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"'--set': expected MODEL\.SETTING=VALUE with a model among lr"):
        parse_models("lr", [text])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"models": "rigde"}, "got 'rigde'"),
        ({"models": ","}, "at least one forecaster"),
        ({"set": "lr.window=0"}, "forecaster.lr.window"),
        ({"data": "nowhere.csv"}, "'nowhere.csv', which is not there"),
        ({"horizon": "0"}, "'train.horizon': expected greater than or equal to 1"),
        ({"validation": "1"}, "'train.validation': expected less than 1"),
        ({"bin": "0"}, "'data.bin_s': expected greater than 0"),
    ],
)
def test_wrong_arguments_are_explained_before_spark_starts(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    assert said in refused(tmp_path, **changes)


def test_an_extra_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lr, "missing", classmethod(lambda cls: ("jax",)))
    monkeypatch.setattr(Lr, "needs", "deep")
    assert "jax to be installed, got none; pip install 'foretide[deep]'" in refused(tmp_path)


def test_the_report_shows_models_bad_rows_and_failures() -> None:
    console = Console(file=io.StringIO(), width=160)
    console.print(report_view(REPORT))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert (
        "12.5%" in shown
        and "1 trained, 1 kept, 1 failed in 1.2 s; 2 series, 100 bins of 5 s, 3 of them missing" in shown
    )
    assert "2 rows left out: negative (first: series web, time 1, value -3)" in shown
    assert "1 row put in order: time going backwards" in shown
    assert "lr of web failed: ForecastError: too short" in shown
    assert "bigru of web: the history is constant" in shown


def test_the_report_as_json_has_no_nan() -> None:
    plain: dict[str, Any] = json.loads(json.dumps(to_dict(REPORT), allow_nan=False))
    assert plain["counts"] == {"trained": 1, "failed": 1, "kept": 1}
    assert plain["models"][0]["rmse"] == 3.0 and plain["models"][0]["mae"] is None
    assert plain["problems"]["negative"]["rows"] == 2


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_and_never_goes_back(terminal: bool) -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=terminal)
    with TrainingView(console) as view:
        view.say("reading the history")
        view.begin(4, 1)
        for finished in (3, 2, 4):
            view.advance(finished)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "1 of 4 models were trained before and are kept" in shown
    assert "4/4" in shown if terminal else shown.endswith("trained 4 of 4 models\n")


def test_an_interrupted_training_says_how_to_go_on() -> None:
    console = Console(file=io.StringIO(), width=100)
    with pytest.raises(KeyboardInterrupt), TrainingView(console) as view:
        view.begin(4, 1)
        raise KeyboardInterrupt
    assert "stopped after 1 of 4 models; start again to continue there" in console.file.getvalue()  # type: ignore[attr-defined]
