from __future__ import annotations

import json

import pytest
from rich.cells import cell_len
from rich.console import Console

from foretide.experiments.presps_example import PAPER, WorkedExample, worked_example
from foretide.experiments.presps_view import render
from foretide.records import Term


@pytest.fixture(scope="module")
def example() -> WorkedExample:
    return worked_example()


@pytest.fixture(scope="module")
def terms(example: WorkedExample) -> dict[str, Term]:
    return {term.symbol: term for term in example.plan.terms}


def by_operator(term: Term) -> list[float]:
    return [term.value(column) for column in range(3)]


def test_p5_presps_table_4_gives_2_3_9_replicas(example: WorkedExample) -> None:
    assert example.plan.by_operator() == {"O1": 2, "O2": 3, "O3": 9}
    assert example.agrees


def test_p5_presps_table_4_terms_are_the_papers_before_rounding(terms: dict[str, Term]) -> None:
    # By hand: 100 * 5/6 = 83.33, 83.33 * 3/4 = 62.5; with queues 100, 90.33, 82.5.
    assert terms["λ̂_G"].values == 100.0
    assert by_operator(terms["θ"]) == pytest.approx([1.0, 5 / 6, 5 / 8])
    assert by_operator(terms["λ̂ʳ"]) == pytest.approx([100.0, 250 / 3, 62.5])
    assert by_operator(terms["λ̂^q"]) == [0.0, 7.0, 20.0]
    assert by_operator(terms["λ̂"]) == pytest.approx([100.0, 271 / 3, 82.5])
    assert by_operator(terms["et"]) == pytest.approx([0.0166, 0.025, 0.1])
    assert by_operator(terms["λ̂·et/td"]) == pytest.approx([1.66, 271 / 120, 8.25])


def test_p5_presps_table_4_printed_values_are_ours_rounded_up(terms: dict[str, Term]) -> None:
    for symbol in ("λ̂ʳ", "λ̂^q", "λ̂", "r"):
        for printed, value in zip(PAPER[symbol], by_operator(terms[symbol]), strict=True):
            assert 0 <= printed - value < 1
    assert by_operator(terms["θ"]) == pytest.approx(PAPER["θ"], abs=5e-4)


def test_p5_presps_table_4_measurement_holds_the_papers_figures(example: WorkedExample) -> None:
    window = example.situation.window
    assert window.processed.tolist() == [140.0, 120.0, 90.0]
    assert window.queued.tolist() == [0.0, 7.0, 20.0]
    assert window.share.tolist() == pytest.approx([1.0, 5 / 6, 3 / 4])
    # The paper counts 117 events received by O2 and 90 by O3.
    assert window.received.round().tolist() == [100.0, 117.0, 90.0]


def test_the_example_can_be_followed_back_to_its_measurement(example: WorkedExample) -> None:
    assert example.plan.came_from == (example.situation.window.id,)
    assert example.situation.window.measurement_ids == (example.measurement.id,)


def test_the_example_as_data_is_json(example: WorkedExample) -> None:
    found = json.loads(json.dumps(example.to_dict()))
    assert found["replicas"] == {"O1": 2, "O2": 3, "O3": 9}
    assert found["terms"][0]["values"] == 100.0
    assert found["terms"][-1]["values"] == {"O1": 2.0, "O2": 3.0, "O3": 9.0}
    assert found["paper"]["r"] == {"O1": 2.0, "O2": 3.0, "O3": 9.0}
    assert found["agrees"] is True


@pytest.mark.parametrize("width", [80, 100])
def test_the_view_shows_every_term_within_the_terminal(example: WorkedExample, width: int) -> None:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(render(example))
    text = captured.get()
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert all(word in text for term in example.plan.terms for word in (term.symbol, *term.meaning.split()))
    assert text.count("the paper prints") == len(PAPER)


def test_the_view_says_when_plan_and_paper_differ(example: WorkedExample) -> None:
    other = WorkedExample(
        example.topology, example.measurement, example.situation, example.plan, {**PAPER, "r": (1.0, 1.0, 1.0)}
    )
    console = Console(width=100, color_system=None)
    with console.capture() as captured:
        console.print(render(other))
    assert "differs from the paper" in captured.get()
