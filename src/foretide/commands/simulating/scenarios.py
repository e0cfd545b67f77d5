"""From the options of ``foretide simulate`` and ``foretide compare`` to what is simulated."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from foretide.commands.topology_argument import load_topology_argument
from foretide.config import validated
from foretide.control.settings import LoopSettings
from foretide.errors import ConfigError
from foretide.plan.promise import parse_promise
from foretide.sim.compare import Scenario, calibrated, plain
from foretide.sim.run import Input
from foretide.sim.settings import SimulationSettings
from foretide.sim.stress import Stress
from foretide.topology import Topology
from foretide.traces import RateTrace, known_traces, load_trace, made_traces
from foretide.traces.loading import without_stretch
from foretide.traces.made import is_made

__all__ = ["CALIBRATED", "GROUPS", "CommonOptions", "Found", "find_input", "find_traces", "read_topology", "scenario"]

#: The name of the four operators of PA-SPS, calibrated for each of its traces.
CALIBRATED = "pasps"
#: What `--set` reaches besides planners and forecasters.
GROUPS = ("sim", "loop", "stress")


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """What the command line sets for every trace."""

    topology: Topology | None
    td_s: float
    stress: bool
    warm_up_s: float = 30.0
    cold_start: bool = False
    settings: Mapping[str, Mapping[str, Any]]
    slo: str | None = None


def read_topology(name: str) -> Topology | None:
    """Return the topology of a file or an application, None for the calibrated one."""
    return None if name == CALIBRATED else load_topology_argument(name)


@dataclass(frozen=True)
class Found:
    """What is simulated: a topology (None: the calibrated one), what arrives, and how often a recorded run decided."""

    topology: Topology | None
    input: Input
    td_s: float | None = None


def find_input(topology: str | None, trace: str | None, run: str | None, store: str | None) -> Found:
    """Return what to simulate: a topology on a trace, or what a recorded run received, on its own topology or another.

    Raises
    ------
    ConfigError
        When neither is named, or both.
    """
    if (trace is None) == (run is None):
        got = "both" if run is not None else "none"
        raise ConfigError("--trace", expected="an input: either --trace, or --run with a recorded run", got=got)
    if run is not None:
        return _recorded(run, store, topology)
    if topology is None:
        expected = "a topology file or an application, since only recorded runs have their own"
        raise ConfigError("TOPOLOGY", expected=expected, got="none")
    assert trace is not None
    return Found(read_topology(topology), load_trace(trace))


def _recorded(run: str, store: str | None, topology: str | None) -> Found:
    from foretide.control.recorded import measured_topology, recorded_traces
    from foretide.store import RunStore, default_store

    with RunStore(store or default_store()) as runs:
        recorded, traces = runs.run(run), recorded_traces(runs.export_trace(run))
        if topology is None:
            chosen = measured_topology(recorded.info.topology(), recorded.measurements())
        elif topology == CALIBRATED:
            raise ConfigError("TOPOLOGY", expected="a topology of the run's sources", got=repr(CALIBRATED))
        else:
            chosen = load_topology_argument(topology)
    return Found(chosen, traces, recorded.info.td_s)


def find_traces(texts: Sequence[str], option: str = "--traces") -> list[RateTrace]:
    """Return the traces that names, patterns and files stand for, each once; commas separate several in one text.

    >>> [trace.name for trace in find_traces(["pasps_d*,pasps_logs"])]
    ['pasps_dns', 'pasps_logs']
    >>> [trace.name for trace in find_traces(["pasps_d*@50%-"])]
    ['pasps_dns@50%-']

    Raises
    ------
    ConfigError
        When nothing matches a pattern.
    TraceError
        When a file is not what it should be.
    """
    names: list[str] = []
    for part in (piece.strip() for text in texts for piece in text.split(",")):
        if part:
            names += _matching(part, option)
    if not names:
        raise ConfigError(option, expected="names or files of traces, such as 'pasps_*'", got=repr(",".join(texts)))
    traces = [load_trace(name) for name in dict.fromkeys(names)]
    return _distinctly_named(traces, list(dict.fromkeys(names)))


def _matching(part: str, option: str) -> list[str]:
    if not any(letter in part for letter in "*?["):
        return [part]
    whole, stretch = without_stretch(part)
    if stretch:
        return [f"{name}{stretch}" for name in _matching(whole, option)]
    if is_made(part):
        return _made(part, option)
    shipped = [name for name in known_traces() if fnmatch(name, part)]
    found = shipped or sorted(path for path in glob.glob(part, recursive=True) if Path(path).is_file())
    if not found:
        expected = f"a pattern that matches a file, or one of {', '.join((*known_traces(), *made_traces()))}"
        raise ConfigError(option, expected=expected, got=repr(part))
    return found


def _made(part: str, option: str) -> list[str]:
    """Return the made-up inputs of a pattern, which may be followed by their seed as in 'made:*:3'."""
    prefix, shape, *seed = part.split(":")
    found = [name for name in made_traces() if fnmatch(name, f"{prefix}:{shape}")]
    if not found:
        raise ConfigError(option, expected=f"a pattern of made-up inputs: {', '.join(made_traces())}", got=repr(part))
    return [":".join((name, *seed)) for name in found]


def _distinctly_named(traces: Sequence[RateTrace], paths: Sequence[str]) -> list[RateTrace]:
    """Return the traces, those of the same name under their path."""
    names = [trace.name for trace in traces]
    return [
        trace if names.count(trace.name) == 1 else RateTrace(path, trace.bin_s, trace.rates)
        for trace, path in zip(traces, paths, strict=True)
    ]


def scenario(trace: Input, common: CommonOptions) -> Scenario:
    """Return what is simulated on one input; the calibrated topology has one source."""
    if common.topology is None:
        assert isinstance(trace, RateTrace)
        base = calibrated(trace, common.td_s)
    else:
        base = plain(trace, common.topology, common.td_s)
    given = common.settings
    if "stress" in given and not common.stress:
        raise ConfigError("--set", expected="settings of stress only with --stress", got="stress without it")
    loop = base.loop.model_dump() | dict(given.get("loop", {}))
    settings = validated(SimulationSettings, base.settings.model_dump() | dict(given.get("sim", {})), "sim")
    if common.slo is not None and settings.micro_batch is None:
        raise ConfigError(
            "--slo",
            expected="batches as on Spark, whose slots a promise decides on",
            got="operators with replicas of their own",
            remedy="add --set sim.micro_batch.fixed_s=0.2",
        )
    return replace(
        base,
        loop=validated(LoopSettings, loop, "loop"),
        settings=settings,
        promise=None if common.slo is None else parse_promise(common.slo, "--slo"),
        stress=validated(Stress, given.get("stress", {}), "stress") if common.stress else None,
        warm_up_s=common.warm_up_s,
        warm_start=not common.cold_start,
    )
