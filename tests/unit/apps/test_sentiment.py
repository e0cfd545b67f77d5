from __future__ import annotations

import csv
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pytest

from foretide.apps.sentiment import SentimentModel, shipped_model
from foretide.traces import payload

LABELS = ("neutral", "positive", "negative")


def examples() -> list[tuple[str, str]]:
    text = (files("foretide.apps") / "data" / "sentiment.csv").read_text(encoding="utf-8")
    return [(row["label"], row["text"].lower()) for row in csv.DictReader(text.splitlines())]


def test_weights_are_those_of_naive_bayes_by_hand() -> None:
    model = SentimentModel.train([("up", "a b"), ("up", "b"), ("down", "c")], ("up", "down"))
    # Three words are known. "up" has 3 words in its texts, "down" one: P(b | up) = (2 + 1) / (3 + 3).
    assert model.weights[model.words["b"]].tolist() == [-693, -1386]
    assert model.priors.tolist() == [-405, -1099]
    # b: -405 - 693 against -1099 - 1386; c: -405 - 1792 against -1099 - 693.
    assert (model.label("b"), model.label("c"), model.label("unknown")) == ("up", "down", "up")


def test_a_column_gets_the_labels_of_its_texts() -> None:
    texts = payload("tweets")(np.arange(3000), seed=2)["text"]
    model = shipped_model()
    labels = model.label_column(texts).to_pylist()
    assert labels == [model.label(text) for text in texts.to_pylist()]
    assert set(labels) == set(LABELS)


def test_an_empty_column_and_empty_texts_are_neutral() -> None:
    model = shipped_model()
    assert model.label_column(pa.array([], pa.string())).to_pylist() == []
    assert model.label_column(pa.array(["", "qwerty"])).to_pylist() == [model.label(""), model.label("qwerty")]
    assert model.label("") == "neutral"


def test_sentences_that_were_not_trained_on_are_mostly_told_right() -> None:
    rows = examples()
    assert {label: sum(row[0] == label for row in rows) for label in LABELS} == dict.fromkeys(LABELS, 30)
    right = 0
    for fold in range(10):
        model = SentimentModel.train([row for place, row in enumerate(rows) if place % 10 != fold], LABELS)
        right += sum(model.label(text) == label for label, text in rows[fold::10])
    assert right / len(rows) > 0.55  # a third by chance


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("we love this team and are so happy", "positive"),
        ("angry and tired of this wrong bill", "negative"),
        ("the report is on the page of the museum", "neutral"),
    ],
)
def test_plain_sentences_are_told_right(text: str, label: str) -> None:
    assert shipped_model().label(text) == label
