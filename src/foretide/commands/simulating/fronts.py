"""``foretide compare --front``: policies swept over their knobs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from rich.console import Console

from foretide._version import __version__
from foretide.commands.group import interrupted, write_file
from foretide.commands.simulating.compare_view import CompareView
from foretide.commands.simulating.fronts_view import fronts_table
from foretide.config import parsed_value
from foretide.control.policies import Policy
from foretide.errors import ConfigError
from foretide.sim.compare import Scenario
from foretide.sim.fronts.clairvoyant import Metric
from foretide.sim.fronts.kept import KeptRows
from foretide.sim.fronts.study import PolicyFront, Study, TraceFronts, plan_study
from foretide.sim.fronts.sweep import run_trials

__all__ = ["FrontRequest", "compare_fronts", "parse_grids"]


@dataclass(frozen=True)
class FrontRequest:
    """What the command line asks for; `asked` is what kept rows must have in common beside what is measured."""

    scenarios: Sequence[Scenario]
    policies: Sequence[Policy]
    metric: str
    seeds: int
    grids: tuple[str, ...]
    jobs: int
    html_out: Path | None
    json_out: Path | None
    keep: Path | None
    asked: Mapping[str, Any]


def compare_fronts(request: FrontRequest, console: Console) -> None:
    """Run every policy at every setting of its knobs, and show, draw and write the fronts."""
    metric = _metric(request.metric)
    grids = parse_grids(request.grids, request.policies)
    study = plan_study(request.scenarios, request.policies, metric, request.seeds, grids)
    kept = None if request.keep is None else KeptRows(request.keep, _how(request))
    try:
        with CompareView(console, len(study.trials)) as view:
            rows = run_trials(study.trials, request.jobs, view.show, kept)
    except KeyboardInterrupt:
        raise interrupted() from None
    found = study.conclude(rows)
    console.print(fronts_table(found, metric))
    if request.json_out is not None:
        text = json.dumps(_data(study, found, rows), indent=1, ensure_ascii=False, allow_nan=False)
        write_file(request.json_out, text + "\n", "--json")
    if request.html_out is not None:
        from foretide.report.fronts import fronts_html

        first = request.scenarios[0]
        how = {
            "td": f"{first.loop.td_s:g} s",
            "stress": "yes" if first.stress is not None else "no",
            "seeds": str(request.seeds),
            "data plane": "micro-batches" if first.settings.micro_batch is not None else "replicas",
        }
        write_file(request.html_out, fronts_html(found, metric, how), "--html")


def parse_grids(texts: Sequence[str], policies: Sequence[Policy]) -> dict[str, dict[str, list[Any]]]:
    """Read grids as ``PLANNER.KNOB=VALUE,VALUE``, by planner and knob.

    >>> parse_grids(["ds2.utilisation_target=1,0.5"], [Policy("ds2")])
    {'ds2': {'utilisation_target': [1, 0.5]}}

    Raises
    ------
    ConfigError
        When a text is malformed, or its planner does not take part.
    """
    known = dict.fromkeys(policy.planner for policy in policies)
    found: dict[str, dict[str, list[Any]]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        planner, dot, knob = (part.strip() for part in name.partition("."))
        if not (equals and dot and knob) or planner not in known:
            expected = f"PLANNER.KNOB=VALUE,VALUE with a planner among {', '.join(known)}"
            raise ConfigError("--grid", expected=expected, got=repr(text))
        given = [parsed_value(value.strip()) for value in values.split(",") if value.strip()]
        found.setdefault(planner, {})[knob] = given
    return found


def _how(request: FrontRequest) -> dict[str, Any]:
    """Return what all runs of a study have in common; a study of fewer inputs, policies or seeds is a part of it."""
    first = request.scenarios[0]
    return {
        "version": __version__,
        "metric": request.metric,
        "td": first.loop.td_s,
        "stress": first.stress is not None,
        "warm_up": first.warm_up_s,
        **request.asked,
    }


def _metric(name: str) -> Metric:
    for known in get_args(Metric):
        if name == known:
            chosen: Metric = known
            return chosen
    raise ConfigError("--front-metric", expected=f"one of {', '.join(get_args(Metric))}", got=repr(name))


def _data(study: Study, found: Sequence[TraceFronts], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "metric": study.metric,
        "traces": [
            {
                "trace": trace.trace,
                "box": asdict(trace.box),
                "best": trace.best.label,
                "policies": [_policy(policy) for policy in trace.policies],
                "clairvoyant": _policy(trace.clairvoyant),
                "bound": [
                    {"latency_ms": latency, "cost": cost}
                    for latency, cost in zip(trace.bound.latency_ms.tolist(), trace.bound.cost.tolist(), strict=True)
                ],
            }
            for trace in found
        ],
        "rows": list(rows),
    }


def _policy(policy: PolicyFront) -> dict[str, Any]:
    on_front = set(policy.front)
    points = zip(policy.knobs, policy.points.tolist(), strict=True)
    return {
        "policy": policy.label,
        "hypervolume": policy.hypervolume,
        "spread": _known(policy.spread),
        "regret": _known(policy.regret),
        "over_bound": _known(policy.over_bound),
        "points": [
            {"knob": knob, "cost": _known(cost), "latency_ms": _known(latency), "front": number in on_front}
            for number, (knob, (cost, latency)) in enumerate(points)
        ],
    }


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
