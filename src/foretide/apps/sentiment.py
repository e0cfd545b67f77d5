"""Sentiment of a text, by naive Bayes trained on the sentences shipped in ``data/sentiment.csv``.

Weights are whole numbers, thousandths of a logarithm: sums of them do not depend on the order in which they are added,
so that a label is the same wherever it is computed.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["SentimentModel", "shipped_model"]

_UNIT = 1000


@dataclass(frozen=True, eq=False)
class SentimentModel:
    """A naive Bayes model over words; unknown words are ignored.

    Parameters
    ----------
    labels : tuple of str
        The possible labels; of equal scores the first wins.
    words : mapping of str to int
        The row of each known word.
    weights : array of int, words by labels
        The weight of a word for each label.
    priors : array of int over labels
        The prior weight of each label.
    """

    labels: tuple[str, ...]
    words: dict[str, int]
    weights: NDArray[np.int64]
    priors: NDArray[np.int64]

    @classmethod
    def train(cls, examples: Iterable[tuple[str, str]], labels: tuple[str, ...]) -> SentimentModel:
        """Return the model of examples, each a label and a text; one is added to every count of a word.

        >>> model = SentimentModel.train([("good", "a nice day"), ("bad", "a sad day")], ("good", "bad"))
        >>> model.label("nice and nice"), model.label("sad"), model.label("day")
        ('good', 'bad', 'good')
        """
        counts: dict[str, Counter[str]] = {label: Counter() for label in labels}
        texts: Counter[str] = Counter()
        for label, text in examples:
            counts[label].update(text.split(" "))
            texts[label] += 1
        words = sorted(set().union(*counts.values()))
        totals = [counts[label].total() + len(words) for label in labels]
        weights = [
            [_log((counts[label][word] + 1) / total) for label, total in zip(labels, totals, strict=True)]
            for word in words
        ]
        priors = [_log(texts[label] / texts.total()) for label in labels]
        places = {word: place for place, word in enumerate(words)}
        return cls(labels, places, np.array(weights, dtype=np.int64), np.array(priors, dtype=np.int64))

    def label(self, text: str) -> str:
        """Return the label of one text."""
        known = [self.weights[self.words[word]].tolist() for word in text.split(" ") if word in self.words]
        scores: list[int] = [sum(column) for column in zip(self.priors.tolist(), *known, strict=True)]
        return self.labels[scores.index(max(scores))]

    def label_column(self, texts: pa.Array) -> pa.Array:
        """Return the labels of a column of texts.

        >>> texts = ["what a great day", "the flight is late again", "the bus leaves at nine"]
        >>> shipped_model().label_column(pa.array(texts)).to_pylist()
        ['positive', 'negative', 'neutral']
        """
        lists = pc.split_pattern(texts, " ")
        rows = np.repeat(np.arange(len(texts)), pc.list_value_length(lists).to_numpy())
        found = pc.index_in(lists.flatten(), pa.array(self.words, pa.string()))
        places = pc.fill_null(found, len(self.words)).to_numpy()
        scores = np.tile(self.priors, (len(texts), 1))
        # The last row is that of unknown words.
        np.add.at(scores, rows, np.vstack([self.weights, np.zeros_like(self.priors)])[places])
        return pa.array(self.labels).take(pa.array(scores.argmax(axis=1)))


@cache
def shipped_model() -> SentimentModel:
    """Return the model trained on the sentences that are shipped: neutral, positive or negative."""
    file = files("foretide.apps") / "data" / "sentiment.csv"
    rows = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    examples = [(row["label"], row["text"].lower()) for row in rows]
    return SentimentModel.train(examples, ("neutral", "positive", "negative"))


def _log(part: float) -> int:
    return round(_UNIT * math.log(part))
