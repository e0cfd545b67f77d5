"""Capacity by usable CPU (SPEC D2 Eq. 6-9), against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.errors import MetricsError
from foretide.plan.capacity import capacity, ideal_capacity, operator_cpu, reserved_cpu, usable_cpu
from foretide.records import OUTSIDE, CpuUse

# Fig. 3: three threads on one core. A uses more than it reserved, B and C less.
FIG_3 = CpuUse(operator=[0, 1, 2], core=[0, 0, 0], used=[0.5, 0.1, 0.2], reserved=[0.3, 0.3, 0.3])


def test_d2_eq6_ideal_capacity() -> None:
    np.testing.assert_allclose(ideal_capacity(30.0, [0.01, 0.2]), [3000.0, 150.0])


def test_d2_eq6_is_not_known_without_a_latency_and_without_limit_at_0() -> None:
    np.testing.assert_array_equal(ideal_capacity(30.0, [np.nan, 0.0]), [np.nan, np.inf])


def test_d2_eq7_usable_cpu_on_one_core() -> None:
    """A: .3·max(.5, .3) + (1 - .1 - .2)/3; B: .3·max(.1, .3) + (1 - .5 - .2)/3; C: .3·max(.2, .3) + (1 - .5 - .1)/3."""
    expected = [0.15 + 0.7 / 3, 0.09 + 0.3 / 3, 0.09 + 0.4 / 3]
    np.testing.assert_allclose(usable_cpu(FIG_3, weight=0.3), expected)


def test_d2_eq7_counts_neighbours_on_the_same_core_only() -> None:
    """Cores 7 and 1000: alone there, a replica has λ·max(used, reserved) + 1 - 0, kept at a whole core."""
    cpu = CpuUse(operator=[0, 0, 1], core=[7, 1000, 1000], used=[0.9, 0.2, 0.4], reserved=[0.1, 0.1, 0.1])
    np.testing.assert_allclose(usable_cpu(cpu), [1.0, 0.06 + 0.6 / 2, 0.12 + 0.8 / 2])


def test_d2_eq7_what_is_no_replica_takes_cpu_but_is_no_neighbour() -> None:
    """On core 0 two replicas and something that uses .4: .3·max(.2, .5) + (1 - .1 - .4)/2, .3·.5 + (1 - .2 - .4)/2."""
    cpu = CpuUse(operator=[0, 1, OUTSIDE], core=[0, 0, 0], used=[0.2, 0.1, 0.4], reserved=[0.5, 0.5, 0.0])
    np.testing.assert_allclose(usable_cpu(cpu), [0.15 + 0.5 / 2, 0.15 + 0.4 / 2, np.nan])
    np.testing.assert_allclose(operator_cpu(cpu, operators=2), [0.4, 0.35])
    np.testing.assert_allclose(reserved_cpu(cpu, operators=2), [0.5, 0.5])


def test_d2_eq7_stays_above_0_on_a_crowded_core() -> None:
    cpu = CpuUse(operator=[0, 1, 2], core=[0, 0, 0], used=[0.0, 2.0, 2.0], reserved=[0.0, 0.0, 0.0])
    np.testing.assert_allclose(usable_cpu(cpu), [0.01, 0.3 * 2 + (1 - 2) / 3, 0.3 * 2 + (1 - 2) / 3])


def test_d2_eq8_is_the_minimum_over_replicas_and_1_where_nothing_is_known() -> None:
    cpu = CpuUse(operator=[0, 0, 2], core=[0, 0, 1], used=[0.5, 0.1, 0.2], reserved=[0.4, 0.4, 0.4])
    first, second = 0.15 + 0.9 / 2, 0.12 + 0.5 / 2
    np.testing.assert_allclose(operator_cpu(cpu, operators=3), [min(first, second), 1.0, 1.0])
    np.testing.assert_array_equal(operator_cpu(None, operators=2), [1.0, 1.0])


def test_d2_eq9_capacity() -> None:
    np.testing.assert_allclose(capacity(30.0, [0.01, 0.2], [0.5, 1.0]), [1500.0, 150.0])


def test_d3_eq13_reserved_cpu_is_the_least_and_1_where_none_is_reserved() -> None:
    cpu = CpuUse(operator=[0, 0, 1, 3], core=[0, 1, 2, 3], used=[0.5] * 4, reserved=[0.6, 0.4, 0.0, 2.0])
    np.testing.assert_array_equal(reserved_cpu(cpu, operators=4), [0.4, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(reserved_cpu(None, operators=2), [1.0, 1.0])
    tiny = CpuUse(operator=[0], core=[0], used=[0.0], reserved=[1e-308])
    np.testing.assert_array_equal(reserved_cpu(tiny, operators=1), [0.01])


def test_no_replicas_measured() -> None:
    nothing = CpuUse(operator=[], core=[], used=[], reserved=[])
    np.testing.assert_array_equal(operator_cpu(nothing, operators=2), [1.0, 1.0])


def test_replicas_of_another_topology_are_refused() -> None:
    with pytest.raises(MetricsError, match="operator number 2"):
        operator_cpu(FIG_3, operators=2)
