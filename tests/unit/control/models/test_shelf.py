"""Which trained models a run begins with (SPEC B1), and what it says about those that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foretide.commands.running.request import RunRequest
from foretide.control.models.shelf import check_models, found_models, kept_models
from foretide.control.settings import RetrainingSettings
from foretide.errors import ConfigError, ForecastError
from foretide.forecast import Ridge, Series
from foretide.forecast.training.model_card import ModelCard
from foretide.forecast.training.model_store import ModelStore, StoredModel
from foretide.topology import Topology, flow


def words(source: str = "in") -> Topology:
    job = flow("words")
    job.source(source).operator("count", execution_s=0.001, replicas=(1, 8))
    return job.build()


def trained(folder: Path, series: str = "in", step_s: float = 1.0) -> StoredModel:
    history = Series(np.arange(50.0), step_s, 50.0, series)
    model = Ridge().fit(history)
    return ModelStore(folder).save(model, ModelCard.of(model, history))


def test_models_are_kept_beside_the_store_of_runs_by_topology(tmp_path: Path) -> None:
    one, other = (kept_models(words(source), tmp_path / "runs.db").directory for source in ("in", "out"))
    assert one.parent == other.parent == tmp_path / "models"
    assert one != other and one.name.startswith("words-")


def test_a_folder_with_the_models_of_all_sources_is_taken(tmp_path: Path) -> None:
    trained(tmp_path)
    check_models(ModelStore(tmp_path), "ridge", words(), step_s=1.0)
    assert found_models(ModelStore(tmp_path), "ridge", words(), RetrainingSettings())[1] == []


def test_a_missing_model_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    trained(tmp_path, "rates")
    expected = r"expected a model 'ridge' of source 'in', got ridge of rates; .*called 'in', in its column 'series'"
    with pytest.raises(ConfigError, match=expected):
        check_models(ModelStore(tmp_path), "ridge", words(), step_s=1.0)
    with pytest.raises(ConfigError, match="got none"):
        check_models(ModelStore(tmp_path / "nowhere"), "ridge", words(), step_s=1.0)


def test_a_model_of_another_step_is_told(tmp_path: Path) -> None:
    trained(tmp_path, step_s=300.0)
    with pytest.raises(ConfigError, match=r"values every 1 s.*got one for values every 300 s; train it with --bin 1"):
        check_models(ModelStore(tmp_path), "ridge", words(), step_s=1.0)


def test_a_damaged_model_is_told_before_anything_runs(tmp_path: Path) -> None:
    file = trained(tmp_path).path / "model.zip"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ForecastError, match="cut short or damaged"):
        check_models(ModelStore(tmp_path), "ridge", words(), step_s=1.0)


class TestRequest:
    def request(self, **given: object) -> RunRequest:
        return RunRequest(named=Path("words.py"), policy="pasps", **given)  # type: ignore[arg-type]

    def test_models_that_were_trained_are_given_to_the_loop(self, tmp_path: Path) -> None:
        trained(tmp_path / "models")
        steering = self.request(forecaster="ridge", models=tmp_path / "models").steering(words())
        assert steering.models is not None and steering.models.directory == tmp_path / "models"

    def test_a_folder_without_them_stops_the_command(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"--models .*expected a model 'bigru' of source 'in'"):
            self.request(forecaster="bigru", models=tmp_path).steering(words())

    def test_a_network_is_kept_beside_the_store_unless_one_begins_afresh(self, tmp_path: Path) -> None:
        store = str(tmp_path / "runs.db")
        kept = self.request(forecaster="bigru", store=store).steering(words()).models
        assert kept is not None and kept.directory.parent == tmp_path / "models"
        for given in ({"fresh": True, "store": store}, {"store": "none"}):
            assert self.request(forecaster="bigru", **given).steering(words()).models is None
        assert self.request(forecaster="ridge", store=store).steering(words()).models is None

    def test_models_for_a_policy_without_forecasts_are_refused(self, tmp_path: Path) -> None:
        trained(tmp_path)
        request = RunRequest(named=Path("words.py"), policy="ds2", models=tmp_path)
        with pytest.raises(ConfigError, match=r"expected a policy with a forecaster, got 'ds2', which reads no"):
            request.steering(words())
