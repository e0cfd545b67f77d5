"""Computing shares and loads from the sources down to the last operator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from foretide.records import Floats, Ints, Layout

__all__ = ["FlowGraph"]


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """The edges among sources and operators as arrays, in an order in which one pass is enough.

    Nodes are numbered sources first, then operators, as in the layout.

    Parameters
    ----------
    sources, operators : int
        How many there are.
    starts, ends : array of int over edges
        The node numbers of each edge's two ends.

    Examples
    --------
    >>> layout = Layout(("in",), ("a", "b"), (("in", "out", "a"), ("a", "out", "b")))
    >>> FlowGraph.of(layout).propagate(at_sources=[100.0], at_operators=[0.0, 5.0], share=[1.0, 0.5])
    array([100.,  55.])
    """

    sources: int
    operators: int
    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, layout: Layout) -> FlowGraph:
        """Return the graph behind `layout`."""
        names = (*layout.sources, *layout.operators)
        node = {name: number for number, name in enumerate(names)}
        starts = np.array([node[start] for start, _, _ in layout.edges], dtype=np.int64)
        ends = np.array([node[end] for _, _, end in layout.edges], dtype=np.int64)
        return cls(len(layout.sources), len(layout.operators), starts, ends)

    @cached_property
    def _ends_of_edges(self) -> list[tuple[int, int]]:
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def propagate(
        self, at_sources: Floats | list[float], at_operators: Floats | list[float], share: Floats | list[float]
    ) -> Floats:
        """Return x_i = own_i + Σ_p x_p · share of the edge from p, for every operator.

        With 1 at the source and nothing at operators this is θ (SPEC P5 Eq. 5), with queues at operators the
        queue load of Eq. 7. One pass in topological order: linear in operators + edges.
        """
        values = [*np.asarray(at_sources).tolist(), *np.asarray(at_operators).tolist()]
        for (start, end), part in zip(self._ends_of_edges, np.asarray(share).tolist(), strict=True):
            values[end] += values[start] * part
        return np.array(values[self.sources :], dtype=np.float64)

    def received(self, passed: Floats) -> Floats:
        """Return what each operator received, given what passed on every edge."""
        total = np.bincount(self.ends, weights=passed, minlength=self.sources + self.operators)
        received: Floats = total[self.sources :].astype(np.float64)
        return received
