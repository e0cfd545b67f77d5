"""Table 1 of BGElasor: the errors of six models that forecast the input rate (B1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from foretide.experiments.reproduce.bgelasor.long_traces import LOADS, input_lines, long_trace, traces_folder
from foretide.experiments.reproduce.contract import (
    Check,
    Comparison,
    Experiment,
    Line,
    Metric,
    Outcomes,
    Panel,
    Printed,
    Result,
    Scope,
    Trial,
)
from foretide.experiments.reproduce.orderings import below, each_seed
from foretide.forecast import make_forecaster
from foretide.records import Floats

__all__ = ["EXPERIMENTS", "HORIZONS", "PREDICTORS", "PredictorErrors", "PredictorJob"]

RMSE = Metric("rmse", "RMSE (deviations of the load)", "ratio")
MAE = Metric("mae", "MAE (deviations of the load)", "ratio")
RMSE_RATIO = Metric("rmse_ratio", "RMSE ÷ that of ARIMA", "ratio")
MAE_RATIO = Metric("mae_ratio", "MAE ÷ that of ARIMA", "ratio")
_ARIMA, _BEST = "ARIMA", "BiGRU"
#: The models by their names in the table.
PREDICTORS = {"ARIMA": "arima", "SVR": "svr", "LSTM": "lstm", "GRU": "gru", "BiLSTM": "bilstm", "BiGRU": "bigru"}
_NETWORKS = ("LSTM", "GRU", "BiLSTM", "BiGRU")
# Table 1, RMSE and MAE; the column of the stable load is left out, whose file could not be had.
_PRINTED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "periodic": {
        "ARIMA": (1.252, 0.888),
        "SVR": (0.789, 0.589),
        "LSTM": (0.541, 0.397),
        "GRU": (0.531, 0.381),
        "BiLSTM": (0.529, 0.385),
        "BiGRU": (0.490, 0.341),
    },
    "fluctuating": {
        "ARIMA": (1.001, 0.713),
        "SVR": (0.720, 0.504),
        "LSTM": (0.639, 0.433),
        "GRU": (0.637, 0.434),
        "BiLSTM": (0.624, 0.426),
        "BiGRU": (0.581, 0.401),
    },
}
_TABLE = "BGElasor, section 4.2, table 1"
_WHERE = f"{_TABLE}: the ratio of two of its numbers"
_NO_UNIT = f"{_TABLE}, in a unit that is not printed"
_DAY_S = 86_400.0
# Days of training, of validation and of test; a trial has the second row.
_DAYS, _TRIAL_DAYS = (40, 10, 10), (4, 1, 1)
#: How far ahead, which the paper does not print: a few bins, or all bins of a day.
HORIZONS = ("6 bins", "a day")
_FEW_BINS = 6
# Small on purpose: the table takes minutes, not hours.
_NETWORK = {"frame": 12, "hidden": 16, "epochs": 12, "patience": 4, "seeds": 1}
# Like the networks, they learn once; from a week, and look back on it.
_CLASSIC: Mapping[str, Mapping[str, Any]] = {
    "arima": {"window": 1_008, "refit_every": 1_000_000},
    "svr": {"window": 1_008, "refit_every": 1_000_000, "lags": 12},
}
# Forecasts are made once an hour of the test days.
_EVERY_S = 3_600.0


@dataclass(frozen=True, eq=False)
class PredictorErrors:
    """How a model did: mean squared and mean absolute errors by step ahead, in deviations of the training part."""

    squares: Floats
    absolutes: Floats

    @property
    def rmse(self) -> float:
        """The root of the mean squared error, over all steps."""
        return float(np.sqrt(self.squares.mean()))

    @property
    def mae(self) -> float:
        """The mean absolute error, over all steps."""
        return float(self.absolutes.mean())


@dataclass(frozen=True)
class PredictorJob:
    """One model, trained on the first days of a load and judged on the last."""

    load: str
    model: str
    horizon: str
    seed: int
    folder: Path | None
    whole: bool = True

    @property
    def label(self) -> str:
        """Model, load, horizon and seed."""
        return f"{self.model} on the {self.load} load, {self.horizon} ahead, seed {self.seed}"

    @property
    def cost(self) -> float:
        """Seconds that it takes."""
        return {"ARIMA": 60.0, "SVR": 3.0}.get(self.model, 15.0) * (1.0 if self.whole else 0.1)

    def run(self) -> PredictorErrors:
        """Train the model, and forecast once an hour of the days after."""
        series = long_trace(self.load, self.folder)
        per_day = round(_DAY_S / series.step_s)
        train, validation, test = (days * per_day for days in (_DAYS if self.whole else _TRIAL_DAYS))
        values = series.values[: train + validation + test]
        deviation = float(values[:train].std())
        steps = _FEW_BINS if self.horizon == HORIZONS[0] else per_day
        settings = self._settings(per_day, steps, validation / (train + validation))
        model = make_forecaster(PREDICTORS[self.model], **settings)
        first, every = train + validation, round(_EVERY_S / series.step_s)
        model.fit(values[:first])
        ahead, came = [], []
        for place in range(first, values.size - steps + 1, every):
            ahead.append(model.predict(steps, levels=()).mean)
            came.append(values[place : place + steps])
            model.update(values[place : place + every])
        errors = (np.array(ahead) - np.array(came)) / deviation
        return PredictorErrors(np.square(errors).mean(axis=0), np.abs(errors).mean(axis=0))

    def _settings(self, per_day: int, steps: int, validation: float) -> Mapping[str, Any]:
        if self.model not in _NETWORKS:
            return _CLASSIC[PREDICTORS[self.model]]
        learning = {"window": per_day, "steps": steps, "validation_share": validation, "seed": self.seed}
        return {**_NETWORK, **learning}


#: A load, a horizon and a model.
Key: TypeAlias = tuple[str, str, str]
Errors: TypeAlias = Mapping[Key, tuple[float, ...]]


def _runs(scope: Scope) -> dict[Key, tuple[PredictorJob, ...]]:
    """Return the runs of each load, horizon and model; those that nothing is random in are made once."""
    folder = traces_folder(scope.traces)
    return {
        (load, horizon, model): tuple(
            PredictorJob(load, model, horizon, seed, folder, scope.whole)
            for seed in (scope.numbers if model in _NETWORKS else (1,))
        )
        for load in LOADS
        for horizon in HORIZONS
        for model in PREDICTORS
    }


def _jobs(scope: Scope) -> list[PredictorJob]:
    return [job for jobs in _runs(scope).values() for job in jobs]


def _conclude(scope: Scope, outcomes: Outcomes) -> Result:
    found = {key: [outcomes[job] for job in jobs] for key, jobs in _runs(scope).items()}
    rmse = {key: tuple(each.rmse for each in runs) for key, runs in found.items()}
    mae = {key: tuple(each.mae for each in runs) for key, runs in found.items()}
    cases = [(load, horizon) for load in LOADS for horizon in HORIZONS]
    return Result(
        tuple(comparison for key in found for comparison in _compared(key, rmse, mae)),
        tuple(check for case in cases for check in _checks(case, rmse, mae, scope)),
        tuple(_panel(load, {model: found[load, HORIZONS[1], model][0] for model in PREDICTORS}) for load in LOADS),
        _NOTES,
    )


def _compared(key: Key, rmse: Errors, mae: Errors) -> list[Comparison]:
    load, horizon, model = key
    subject = f"{model}, {load}, {horizon} ahead"
    found = [Comparison(subject, RMSE, rmse[key]), Comparison(subject, MAE, mae[key])]
    if model == _ARIMA:
        return found if horizon == HORIZONS[1] else _of_arima(load, rmse, mae)
    printed, base = _PRINTED[load][model], _PRINTED[load][_ARIMA]
    for metric, errors, place in ((RMSE_RATIO, rmse, 0), (MAE_RATIO, mae, 1)):
        ratios, other = (_by_arima(errors, (load, ahead, model)) for ahead in (horizon, HORIZONS[1]))
        if horizon == HORIZONS[1]:
            found.append(Comparison(subject, metric, ratios))
            continue
        # One number is printed: the other horizon is an experiment on it.
        trials = (Trial(f"{HORIZONS[1]} ahead", float(np.mean(other))),)
        found.append(Comparison(subject, metric, ratios, Printed(printed[place] / base[place], _WHERE), trials))
    return found


def _of_arima(load: str, rmse: Errors, mae: Errors) -> list[Comparison]:
    """Return the errors of ARIMA beside the printed ones, whose unit is taken to be ours."""
    subject, found = f"{_ARIMA}, {load}, {HORIZONS[0]} ahead", list[Comparison]()
    for metric, errors, printed in zip((RMSE, MAE), (rmse, mae), _PRINTED[load][_ARIMA], strict=True):
        near, far = (errors[load, ahead, _ARIMA] for ahead in HORIZONS)
        trials = (Trial(f"{HORIZONS[1]} ahead", float(np.mean(far))),)
        found.append(Comparison(subject, metric, near, Printed(printed, _NO_UNIT), trials))
    return found


def _by_arima(errors: Errors, key: Key) -> tuple[float, ...]:
    load, horizon, _ = key
    [of_arima] = errors[load, horizon, _ARIMA]
    return tuple(each / of_arima for each in errors[key])


def _checks(case: tuple[str, str], rmse: Errors, mae: Errors, scope: Scope) -> list[Check]:
    seeds = len(scope.numbers)
    load, horizon = case
    where = f"{load}, {horizon} ahead"

    def all_seeds(errors: Errors) -> dict[str, tuple[float, ...]]:
        return {model: (errors[load, horizon, model] * seeds)[:seeds] for model in PREDICTORS}

    squared, absolute = all_seeds(rmse), all_seeds(mae)
    worst = max(np.mean(squared[model]) for model in _NETWORKS)
    checks = [
        each_seed(
            f"{where}: every network has a lower RMSE than ARIMA and SVR",
            seeds,
            lambda n: max(squared[model][n] for model in _NETWORKS) < min(squared[_ARIMA][n], squared["SVR"][n]),
            f"the worst network {worst:.3f}, ARIMA {squared[_ARIMA][0]:.3f}, SVR {squared['SVR'][0]:.3f}",
        ),
        below(f"{where}: SVR has a lower RMSE than ARIMA", squared, "SVR", _ARIMA, RMSE),
    ]
    for other in PREDICTORS:
        if other != _BEST:
            checks.append(below(f"{where}: BiGRU has a lower RMSE than {other}", squared, _BEST, other, RMSE))
            checks.append(below(f"{where}: BiGRU has a lower MAE than {other}", absolute, _BEST, other, MAE))
    return checks


def _panel(load: str, runs: Mapping[str, PredictorErrors]) -> Panel:
    lines = tuple(
        Line(model, np.arange(1.0, run.squares.size + 1.0), np.sqrt(run.squares)) for model, run in runs.items()
    )
    return Panel(f"{load} load: RMSE by bins ahead", "bins ahead", "deviations", lines)


_NOTES = (
    "Each model forecasts once an hour of days 50 to 60. Networks look back on a day; they are trained on days 1 to "
    "40, and days 40 to 50 stop the training. ARIMA (2, 1, 1) and SVR (12 lags, radial kernel) learn once, from the "
    "last 1,008 bins before day 50, and look back on as many. RMSE and MAE are over all bins ahead.",
    "Departures from print: the paper says neither how far back its models look, nor how far ahead, nor how large its "
    "networks are, nor in which unit its errors are. Two horizons stand for the one that is not printed. Our errors "
    "are in standard deviations of the load over days 1 to 40, as if those of ARIMA in print were, too; units cancel "
    "in the ratios of the other models' errors to these, which are compared in place of the errors. The networks are "
    "small (16 units, frames of 12 values, 12 epochs at most) so that the table takes minutes. The paper repeats ten "
    "times; here a network is trained once per seed, and ARIMA and SVR, in which nothing is random, once.",
    "The paper's first column, the stable load, is left out: its file could not be had.",
)

EXPERIMENTS = (
    Experiment(
        name="bgelasor-table1",
        title="BGElasor, table 1: errors of six models that forecast the input rate",
        source="BGElasor",
        seconds=600,
        jobs=_jobs,
        conclude=_conclude,
        inputs=lambda scope: input_lines(scope.traces),
    ),
)
