import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import CountMin, HashFamily, Sketches

P = 2**61 - 1


def test_d4_size_of_a_sketch() -> None:
    # ln 20 = 2.996 and 2.7/.05 = 54; Fig. 6: ln 4 = 1.386 and 2.7/.7 = 3.86.
    family, small = HashFamily.for_precision(0.05, 0.05), HashFamily.for_precision(0.7, 0.25)
    assert (family.rows, family.columns) == (3, 54)
    assert (small.rows, small.columns) == (2, 4)
    assert HashFamily.for_precision(0.27, 0.05).columns == 10


def test_carter_wegman_agrees_with_whole_number_arithmetic() -> None:
    edges = [0, 1, -1, P, P - 1, P + 1, 2**31, 2**31 - 1, 2**62, 2**63 - 1, -(2**63)]
    keys = edges + np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 200).tolist()
    for seed in range(5):
        family = HashFamily(4, 54, seed)
        a, b = family.coefficients
        expected = [[(int(a[r]) * (k % 2**64) + int(b[r])) % P % 54 for k in keys] for r in range(4)]
        assert family.buckets(keys).tolist() == expected


def test_coefficients_are_in_range_and_depend_on_the_seed() -> None:
    a, b = HashFamily(64, 54, 9).coefficients
    assert (a >= 1).all() and (a < P).all() and (b < P).all()
    assert len(set(a.tolist())) == 64
    assert HashFamily(3, 54, 1).coefficients[0].tolist() != HashFamily(3, 54, 2).coefficients[0].tolist()


def test_collisions_are_about_one_in_columns() -> None:
    # 2-universality: two keys share a column with probability 1/c. Mean over pairs of 400 keys.
    column = HashFamily(1, 50, 4).buckets(np.arange(400) * 977)[0]
    counts = np.bincount(column, minlength=50)
    pairs = (counts * (counts - 1)).sum() / (400 * 399)
    assert pairs < 1.5 / 50


def test_count_min_by_hand() -> None:
    sketch = CountMin(HashFamily(1, 1))  # one cell: every key collides
    sketch.add([1, 2, 2], [0.5, 1.0, 2.0])
    assert sketch.estimate([1, 2, 3]).tolist() == [3.5, 3.5, 3.5]
    sketch.clear()
    assert sketch.estimate([1]).tolist() == [0.0]


def test_count_min_answers_the_least_cell() -> None:
    family = HashFamily(3, 5, seed=2)
    keys = np.arange(20)
    sketch = CountMin(family)
    sketch.add(keys, keys + 1.0)
    rows = family.buckets(keys)
    cells = np.array([np.bincount(rows[r], weights=keys + 1.0, minlength=5) for r in range(3)])
    assert sketch.cells.tolist() == cells.tolist()
    expected = [min(cells[r, rows[r, k]] for r in range(3)) for k in keys]
    assert sketch.estimate(keys).tolist() == expected


def test_d4_means_are_omega_over_phi_and_0_where_nothing_was_counted() -> None:
    family = HashFamily(1, 4)
    sketches = Sketches(family, np.array([[2.0, 0.0, 4.0, 0.0]]), np.array([[1.0, 0.0, 6.0, 0.0]]))
    assert sketches.means.tolist() == [[0.5, 0.0, 1.5, 0.0]]
    assert sketches.mean_s == pytest.approx(7 / 6)
    assert Sketches.empty(family).mean_s == 0.0


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.0), ("epsilon", 1.0), ("delta", -0.1), ("delta", 2.0)])
def test_precision_must_be_between_0_and_1(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"grouping\.osg\.{name}"):
        HashFamily.for_precision(**{name: value})


def test_errors_of_sketches() -> None:
    family = HashFamily(2, 4)
    with pytest.raises(ConfigError, match=r"2 rows of 4 columns.*\(1, 4\)"):
        Sketches(family, np.zeros((1, 4)), np.zeros((2, 4)))
    with pytest.raises(ConfigError, match=r"grouping\.sketch\.amounts"):
        CountMin(family).add([1, 2], [1.0, -1.0])
    with pytest.raises(ConfigError, match=r"grouping\.sketch\.amounts"):
        CountMin(family).add([1, 2], [1.0])
