"""Every registered forecaster keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foretide.forecast import FORECASTERS, Forecaster
from foretide.forecast.checks import CHECKS

#: Those that are compiled or trained for longer than all others together.
SLOW = ("auto", "lstm", "gru", "bilstm", "bigru")
INSTALLED = [
    pytest.param(model, id=name, marks=pytest.mark.slow if name in SLOW else ())
    for name, model in FORECASTERS.items()
    if not model.missing()
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("model", INSTALLED)
def test_forecaster(model: type[Forecaster], check: Callable[[Forecaster], None]) -> None:
    check(model(**model.check_settings))
