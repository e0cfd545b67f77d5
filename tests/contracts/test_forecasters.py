"""Every registered forecaster keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foretide.forecast import FORECASTERS, Forecaster
from foretide.forecast.checks import CHECKS

INSTALLED = [model for model in FORECASTERS.values() if not model.missing()]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("model", INSTALLED, ids=lambda model: model.name)
def test_forecaster(model: type[Forecaster], check: Callable[[Forecaster], None]) -> None:
    check(model(**model.check_settings))
