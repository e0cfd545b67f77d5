from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretide.errors import ConfigError, ForecastError
from foretide.forecast import Basic, Forecaster, Lr, Series
from foretide.forecast.training.model_card import ModelCard, fingerprint, settings_key
from foretide.forecast.training.model_store import ModelStore, StoredModel


def history(*values: float, name: str = "web") -> Series:
    return Series(np.array(values or (3.0, 5.0)), step_s=5.0, ended_at_s=100.0, name=name)


def save(store: ModelStore, series: Series | None = None, model: Forecaster | None = None) -> StoredModel:
    series, model = series or history(), model or Basic()
    return store.save(model.fit(series), ModelCard.of(model, series, metrics={"rmse": 1.5, "mape": np.nan}))


def version_in_use(store: ModelStore) -> int | None:
    found = store.latest("web", "basic")
    return None if found is None else found.version


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_model_comes_back_with_its_card(tmp_path: Path) -> None:
    saved = save(ModelStore(tmp_path))
    found = ModelStore(tmp_path).latest("web", "basic")
    assert found is not None
    assert found.path == tmp_path / "web" / "basic" / "000001"
    assert found.load().predict(2).mean.tolist() == [5.0, 5.0]
    assert found.card.metrics["rmse"] == 1.5 and np.isnan(found.card.metrics["mape"])
    assert found.card.data == {"values": 2, "missing": 0, "step_s": 5.0, "ended_at_s": 100.0}
    assert found.card.trained_at == saved.card.trained_at and "numpy" in found.card.libraries
    assert {entry.name for entry in found.path.iterdir()} == {"model.zip", "card.json"}


def test_nothing_is_there_before_the_first(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "none")
    assert store.latest("web", "basic") is None
    assert store.newer_than("web", "basic", None) is None
    assert store.list() == ()


def test_versions_count_up_and_the_oldest_go(tmp_path: Path) -> None:
    store = ModelStore(tmp_path, keep=2)
    assert [save(store, history(1.0, float(number))).version for number in range(4)] == [1, 2, 3, 4]
    assert sorted(entry.name for entry in (tmp_path / "web" / "basic").iterdir()) == [
        "000003",
        "000004",
        "current.json",
    ]


def test_an_older_version_can_be_used_again_and_is_not_removed(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    first = save(store)
    save(store, history(7.0, 9.0))
    store.use(first)
    assert version_in_use(store) == 1
    store.ensure_used(first)
    assert version_in_use(store) == 1


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "../../etc", "日本 %2F", "x" * 500, "A\\b:c*\n"])
def test_any_name_of_a_series_has_its_own_directory(tmp_path: Path, name: str) -> None:
    store = ModelStore(tmp_path)
    for each in (name, "other"):
        save(store, history(name=each))
    assert len(list(tmp_path.iterdir())) == 2
    assert sorted(stored.card.series for stored in store.list()) == sorted([name, "other"])
    found = store.latest(name, "basic")
    assert found is not None and found.load().predict(1).series == name


def test_two_long_names_are_told_apart(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    for end in "ab":
        save(store, history(name="x" * 300 + end))
    assert len(list(tmp_path.iterdir())) == 2


def test_a_new_version_is_noticed_once(tmp_path: Path) -> None:
    store, trainer = ModelStore(tmp_path), ModelStore(tmp_path)
    save(trainer)
    first = store.newer_than("web", "basic", None)
    assert first is not None and first.version == 1
    assert store.newer_than("web", "basic", 1) is None
    save(trainer, history(7.0, 9.0))
    second = store.newer_than("web", "basic", 1)
    assert second is not None and second.load().predict(1).mean.tolist() == [9.0]


def test_going_back_is_noticed_too(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    first = save(store)
    save(store)
    store.use(first)
    found = store.newer_than("web", "basic", 2)
    assert found is not None and found.version == 1


def test_a_version_that_is_unchanged_is_not_read_again(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    stored = save(store)
    assert store.newer_than("web", "basic", None) is not None
    (stored.path / "card.json").unlink()
    assert store.newer_than("web", "basic", 1) is None


def test_a_damaged_pointer_is_reported_once(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    save(store)
    (tmp_path / "web" / "basic" / "current.json").write_text('{"form')
    with pytest.raises(ForecastError, match=r"current\.json: expected a whole file, got one that is cut short"):
        store.newer_than("web", "basic", 1)
    assert store.newer_than("web", "basic", 1) is None
    with pytest.raises(ForecastError, match="cut short"):
        store.latest("web", "basic")


def test_a_pointer_of_another_format_is_refused(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    save(store)
    edit(tmp_path / "web" / "basic" / "current.json", format=99)
    with pytest.raises(ForecastError, match="expected format 1 and a version number, got format 99"):
        store.latest("web", "basic")


def test_a_card_of_another_format_is_refused_and_retrained(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    stored = save(store)
    edit(stored.path / "card.json", format=99)
    with pytest.raises(ForecastError, match=r"card\.json: expected format 1, got 99; load it with the version"):
        store.latest("web", "basic")
    assert store.find("web", "basic", stored.card.fingerprint, stored.card.settings_key) is None
    assert store.list() == ()


@pytest.mark.parametrize("text", ["", '{"series": "web"', "[]", '{"model": "basic"}'])
def test_a_card_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    store = ModelStore(tmp_path)
    (save(store).path / "card.json").write_text(text)
    with pytest.raises(ForecastError, match=r"card\.json: expected a whole file"):
        store.latest("web", "basic")


def test_a_model_cut_short_is_refused_and_retrained(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    stored = save(store)
    file = stored.path / "model.zip"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(ForecastError, match="cut short or damaged"):
        stored.load()
    assert store.find("web", "basic", stored.card.fingerprint, stored.card.settings_key) is None


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    stored = save(store)
    Lr().fit(history()).save(stored.path / "model.zip")
    with pytest.raises(ForecastError, match="expected a forecaster 'basic' as its card says, got 'lr'"):
        stored.load()


def test_a_model_that_is_not_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = save(ModelStore(tmp_path))
    monkeypatch.setattr(Basic, "missing", classmethod(lambda cls: ("magic",)))
    with pytest.raises(ConfigError, match="expected magic to be installed"):
        stored.load()


def test_what_was_trained_on_the_same_data_with_the_same_settings_is_found(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    first = save(store, history(1.0, 2.0))
    save(store, history(3.0, 4.0))
    key = settings_key(Basic(), {})
    found = store.find("web", "basic", fingerprint(history(1.0, 2.0)), key)
    assert found is not None and found.path == first.path
    assert store.find("web", "basic", fingerprint(history(1.0, 2.0)), settings_key(Basic(window=7), {})) is None
    assert store.find("web", "basic", fingerprint(history(9.0, 2.0)), key) is None
    assert store.find("api", "basic", fingerprint(history(1.0, 2.0)), key) is None


def test_a_model_stored_but_not_yet_in_use_counts_after_a_kill(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    stored = save(store)
    (tmp_path / "web" / "basic" / "current.json").unlink()
    assert store.latest("web", "basic") is None
    store.ensure_used(stored)
    assert version_in_use(store) == 1


def test_a_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ModelStore(tmp_path)

    def fail(self: Forecaster, path: Path) -> Path:
        Path(path).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Basic, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        save(store)
    assert list((tmp_path / "web" / "basic").iterdir()) == []


def test_two_trainers_get_two_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ModelStore(tmp_path), ModelStore(tmp_path)
    rename, between = os.rename, [lambda: save(other)]

    def interrupted(start: str, end: str) -> None:
        if between:
            between.pop()()
        rename(start, end)

    monkeypatch.setattr(os, "rename", interrupted)
    assert save(one).version == 2
    assert {stored.version for stored in one.list()} == {2}
    assert (tmp_path / "web" / "basic" / "000001" / "model.zip").exists()


def test_what_killed_trainers_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    save(store)
    home = tmp_path / "web" / "basic"
    for name, age_s in ((".part-old", 7200.0), (".part-new", 0.0)):
        (home / name).mkdir()
        os.utime(home / name, (time.time() - age_s,) * 2)
    save(store)
    assert not (home / ".part-old").exists() and (home / ".part-new").exists()


def test_the_fingerprint_knows_values_step_and_start() -> None:
    base = fingerprint(history(1.0, 2.0))
    assert base == fingerprint(history(1.0, 2.0, name="another"))
    others = [
        Series(np.array([1.0, 2.1]), 5.0, 100.0),
        Series(np.array([1.0, 2.0]), 6.0, 101.0),
        Series(np.array([1.0, 2.0]), 5.0, 105.0),
        Series(np.array([1.0, 2.0, np.nan]), 5.0, 105.0),
    ]
    assert len({base, *map(fingerprint, others)}) == 5


def test_a_model_that_was_changed_after_training_is_refused(tmp_path: Path) -> None:
    """It is a whole file of the right format; it is only not the one that was trained and judged."""
    store = ModelStore(tmp_path)
    stored, other = save(store), ModelStore(tmp_path / "other")
    changed = Basic().fit(Series(np.array([1.0, 99.0]), name="web"))
    forged = other.save(changed, ModelCard.of(changed, Series(np.array([1.0, 99.0]), name="web")))
    (stored.path / "model.zip").write_bytes((forged.path / "model.zip").read_bytes())
    with pytest.raises(ForecastError, match=r"expected the file as it was trained, SHA-256 .* it was changed since"):
        stored.load()


def test_a_card_without_a_digest_is_of_an_earlier_version_and_is_taken(tmp_path: Path) -> None:
    store = ModelStore(tmp_path)
    stored = save(store)
    edit(stored.path / "card.json", digest="")
    found = store.latest("web", "basic")
    assert found is not None and found.load().name == "basic"
