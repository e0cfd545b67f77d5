"""Policies by name, the same for every command: a planner, and the forecaster that it reads.

``pasps:ann`` is the planner ``pasps`` with the forecaster ``ann``. ``static-min`` and ``static-peak`` are the two
static plans that others are compared with.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foretide.config import parsed_value
from foretide.errors import ConfigError
from foretide.forecast import FORECASTERS, Forecaster, all_forecasters, make_forecaster
from foretide.plan import Planner, make_planner
from foretide.plan.registry import all_planners, find_planner
from foretide.topology import Topology

__all__ = ["STATIC_MIN", "STATIC_PEAK", "Policy", "parse_policies", "parse_policy", "parse_settings"]

#: The fewest replicas that the bounds of every operator allow.
STATIC_MIN = "static-min"
#: The replicas that the highest rate of the input needs.
STATIC_PEAK = "static-peak"
_STATIC = "static"
_NONE = "none"


@dataclass(frozen=True)
class Policy:
    """A planner and a forecaster by name, with their settings.

    Parameters
    ----------
    planner : str
        The planner, ``static-min`` or ``static-peak``.
    forecaster : str, optional
        The forecaster; None where the planner reads no forecasts.
    planner_settings, forecaster_settings : mapping
        Settings other than the defaults.
    name : str
        How the user named it; the label unless given.

    Examples
    --------
    >>> policy = parse_policy("pasps:lr", settings={"lr": {"window": 20}})
    >>> policy.label, policy.make_forecaster(window=12).window
    ('pasps:lr', 20)
    """

    planner: str
    forecaster: str | None = None
    planner_settings: Mapping[str, Any] = field(default_factory=dict)
    forecaster_settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.label)

    @property
    def label(self) -> str:
        """The planner and the forecaster, as in ``pasps:ann``."""
        return self.planner if self.forecaster is None else f"{self.planner}:{self.forecaster}"

    def fixed_replicas(self, topology: Topology, peak: Mapping[str, int]) -> dict[str, int] | None:
        """Return the replicas of ``static-min`` or ``static-peak``; None for a policy that decides.

        Parameters
        ----------
        topology : Topology
            What runs.
        peak : mapping of str to int
            The replicas that the highest rate of the input needs; empty where that is not known.

        Raises
        ------
        ConfigError
            For ``static-peak`` where the peak is not known.
        """
        if self.planner == STATIC_MIN:
            return dict(zip(topology.layout.operators, topology.minimum_replicas.tolist(), strict=True))
        if self.planner != STATIC_PEAK:
            return None
        if not peak:
            raise ConfigError(
                "--policy",
                expected="a source of kind 'trace', whose peak is known, for static-peak",
                got="none",
                remedy="choose another policy, or --policy static with --replicas",
            )
        return dict(peak)

    def make_planner(self, topology: Topology, peak: Mapping[str, int]) -> Planner:
        """Return the planner; `static` without settings keeps the replicas that the input's `peak` needs."""
        fixed = self.fixed_replicas(topology, peak)
        if fixed is None and self.planner == _STATIC and not self.planner_settings:
            fixed = dict(peak)
        if fixed is not None:
            return make_planner(_STATIC, by_operator=fixed)
        return make_planner(self.planner, **self.planner_settings)

    def make_forecaster(self, **defaults: Any) -> Forecaster | None:
        """Return the forecaster; `defaults` are settings that the policy's own win over."""
        if self.forecaster is None:
            return None
        return make_forecaster(self.forecaster, **{**defaults, **self.forecaster_settings})


def parse_policy(
    text: str,
    forecaster: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    option: str = "--policy",
) -> Policy:
    """Read one policy such as ``pasps:ann``, as `parse_policies` does.

    >>> parse_policy("pasps", forecaster="lr").label
    'pasps:lr'

    Raises
    ------
    ConfigError
        As `parse_policies`, and when there is more than one.
    """
    found = parse_policies(text, forecaster, settings, option)
    if len(found) > 1:
        raise ConfigError(option, expected="one policy, such as 'pasps:basic'", got=repr(text))
    return found[0]


def parse_policies(
    text: str,
    forecaster: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    option: str = "--policies",
) -> tuple[Policy, ...]:
    """Read policies such as ``foretide,pasps:ann,static-peak``.

    Parameters
    ----------
    text : str
        Planners, each with a forecaster after a colon if it is to have one of its own.
    forecaster : str, optional
        The forecaster of those that read forecasts and name none.
    settings : mapping of str to mapping
        Settings of planners and forecasters, by name.
    option : str
        What the text came from, for messages.

    Raises
    ------
    ConfigError
        When a name is not known, or a planner that reads forecasts has no forecaster.

    Examples
    --------
    >>> [policy.label for policy in parse_policies("pasps:ann, pasps, ds2", forecaster="basic")]
    ['pasps:ann', 'pasps:basic', 'ds2']
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ConfigError(option, expected="at least one policy, such as 'pasps:basic'", got=repr(text))
    given = settings or {}
    return tuple(_parsed(name, forecaster, given, option) for name in names)


def _parsed(name: str, forecaster: str | None, settings: Mapping[str, Mapping[str, Any]], option: str) -> Policy:
    planner, colon, own = (part.strip() for part in name.partition(":"))
    if colon and not own:
        raise ConfigError(option, expected="a forecaster after the colon, such as 'pasps:basic'", got=repr(name))
    if own and own != _NONE:
        _check("forecaster", own, all_forecasters())
    if not _needs_forecast(planner):
        return Policy(planner, None, settings.get(planner, {}), name=planner)
    model = own or forecaster
    if model is None or model == _NONE:
        raise ConfigError(
            "--forecaster",
            expected=f"a forecaster, since policy {planner!r} plans from forecasts",
            got="none",
            remedy=f"write '{planner}:basic' or --forecaster basic; there are {', '.join(FORECASTERS)}",
        )
    return Policy(planner, model, settings.get(planner, {}), settings.get(model, {}), name=name)


def _needs_forecast(planner: str) -> bool:
    _check("policy", planner, (STATIC_MIN, STATIC_PEAK, *all_planners()))
    return planner not in (STATIC_MIN, STATIC_PEAK) and find_planner(planner).needs_forecast


def _check(kind: str, name: str, known: Sequence[str] | Mapping[str, Any]) -> None:
    """Refuse a name that is not known, and tell the nearest ones."""
    if name in known:
        return
    close = " or ".join(repr(one) for one in difflib.get_close_matches(name, known, n=3))
    remedy = f"did you mean {close}?" if close else ""
    raise ConfigError(kind, expected=f"one of {', '.join(known)}", got=repr(name), remedy=remedy)


def parse_settings(
    texts: Sequence[str], policies: Sequence[Policy], others: Sequence[str] = ()
) -> tuple[tuple[Policy, ...], dict[str, dict[str, Any]]]:
    """Read settings as ``NAME.SETTING=VALUE``; return the policies with theirs, and those of `others` by name.

    >>> policies, rest = parse_settings(["lr.window=20", "sim.queue_bound=100"], parse_policies("pasps:lr"), ("sim",))
    >>> policies[0].forecaster_settings, rest
    ({'window': 20}, {'sim': {'queue_bound': 100}})

    Raises
    ------
    ConfigError
        When a text is malformed, or belongs to nobody that takes part.
    """
    names = [name for policy in policies for name in (policy.planner, policy.forecaster) if name is not None]
    known = dict.fromkeys((*names, *others))
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        owner, *path = (part.strip() for part in name.split("."))
        if not (equals and path and all(path)) or owner not in known:
            raise ConfigError("--set", expected=f"NAME.SETTING=VALUE with a name among {', '.join(known)}", got=text)
        place = found.setdefault(owner, {})
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = parsed_value(value.strip())
    with_theirs = tuple(
        replace(
            policy,
            planner_settings=found.get(policy.planner, {}),
            forecaster_settings=found.get(policy.forecaster or "", {}),
        )
        for policy in policies
    )
    return with_theirs, {name: found[name] for name in others if name in found}
