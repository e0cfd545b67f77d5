from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foretide.forecast import SeasonalTrees, Series, load_forecaster

pytest.importorskip("lightgbm")


def bursts(size: int) -> Series:
    """A season of 24 whose bursts of every third value grow with its level, which no linear model follows."""
    place = np.arange(size)
    level = 100 + 60 * np.sin(place * 2 * np.pi / 24)
    noise = np.random.default_rng(9).normal(0, 1, size)
    return Series(level * (1 + 0.5 * (place % 3 == 0)) + noise, 1.0, size - 1.0, "in")


def test_trees_follow_season_and_bursts_and_survive_a_file(tmp_path: Path) -> None:
    series = bursts(1260)
    model = SeasonalTrees(trees=60, leads=3).fit(series.part(0, 1200))
    loaded = load_forecaster(model.save(tmp_path / "trees"))
    errors = []
    for origin in range(1200, 1250):
        path = loaded.predict(3).mean
        assert path == pytest.approx(model.predict(3).mean)
        errors.append(path - series.values[origin : origin + 3])
        for each in (model, loaded):
            each.update(series.part(origin, origin + 1))
    assert np.sqrt(np.mean(np.square(errors))) < 8.0, "the series swings by 45 and its bursts by up to 80"
    assert model.predict(9).mean[3:] == pytest.approx(model.predict(3).mean[-1])


def test_a_short_history_goes_on_with_its_last_value() -> None:
    assert SeasonalTrees().fit(bursts(120)).predict(2).mean == pytest.approx([bursts(120).values[-1]] * 2)
