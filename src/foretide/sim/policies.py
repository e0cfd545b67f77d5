"""Policies by name, as a command line names them: a planner, and the forecaster that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from foretide.config import parsed_value
from foretide.errors import ConfigError
from foretide.forecast import FORECASTERS, Forecaster, all_forecasters, make_forecaster
from foretide.plan import Planner, make_planner
from foretide.plan.registry import find_planner
from foretide.records import Ints
from foretide.topology import Topology

__all__ = ["Policy", "parse_policies", "parse_settings"]

_NONE = "none"
# Results must not depend on when a model that trains beside the run happens to be ready.
_IN_LINE: Mapping[str, Mapping[str, Any]] = {"auto": {"background": False}}


@dataclass(frozen=True)
class Policy:
    """A planner and a forecaster by name, with their settings.

    Parameters
    ----------
    planner : str
        The planner.
    forecaster : str, optional
        The forecaster; None where the planner reads no forecasts.
    planner_settings, forecaster_settings : mapping
        Settings other than the defaults.

    Examples
    --------
    >>> [policy] = parse_policies("pasps:lr", settings={"lr": {"window": 20}})
    >>> policy.label, policy.make_forecaster().window
    ('pasps:lr', 20)
    """

    planner: str
    forecaster: str | None = None
    planner_settings: Mapping[str, Any] = field(default_factory=dict)
    forecaster_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """How the command line names it."""
        return self.planner if self.forecaster is None else f"{self.planner}:{self.forecaster}"

    def make_planner(self, topology: Topology, peak: Ints) -> Planner:
        """Return the planner; `static` without settings keeps the replicas that the input's `peak` needs."""
        settings = dict(self.planner_settings)
        if self.planner == "static" and not settings:
            settings = {"by_operator": dict(zip(topology.layout.operators, peak.tolist(), strict=True))}
        return make_planner(self.planner, **settings)

    def make_forecaster(self, window: int | None = None) -> Forecaster | None:
        """Return the forecaster; it looks back `window` observations unless its settings say otherwise."""
        if self.forecaster is None:
            return None
        own = {} if window is None else {"window": window}
        return make_forecaster(
            self.forecaster, **{**_IN_LINE.get(self.forecaster, {}), **own, **self.forecaster_settings}
        )


def parse_policies(
    text: str,
    forecaster: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    option: str = "--policies",
) -> tuple[Policy, ...]:
    """Read policies such as ``foretide,pasps:ann,static``.

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
    pairs = [_pair(name, forecaster, option) for name in names]
    return tuple(
        Policy(planner, model, given.get(planner, {}), given.get(model, {}) if model else {})
        for planner, model in pairs
    )


def _pair(text: str, forecaster: str | None, option: str) -> tuple[str, str | None]:
    planner, colon, own = (part.strip() for part in text.partition(":"))
    needs = find_planner(planner).needs_forecast
    if colon and not own:
        raise ConfigError(option, expected="a forecaster after the colon, such as 'pasps:basic'", got=repr(text))
    model = own or forecaster
    if own and own != _NONE and own not in all_forecasters():
        make_forecaster(own)  # which says what there is
    if not needs:
        return planner, None
    if model is None or model == _NONE:
        raise ConfigError(
            "--forecaster",
            expected=f"a forecaster, since policy {planner!r} plans from forecasts",
            got="none",
            remedy=f"write '{planner}:basic' or --forecaster basic; there are {', '.join(FORECASTERS)}",
        )
    return planner, model


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
