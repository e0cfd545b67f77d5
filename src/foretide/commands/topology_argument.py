"""The argument that names a topology: a file, or an application that is shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foretide.errors import ConfigError

if TYPE_CHECKING:
    from foretide.apps import App
    from foretide.topology import Topology

__all__ = ["SETTINGS_HELP", "TOPOLOGY_HELP", "load_topology_argument", "parse_settings"]

TOPOLOGY_HELP = "An application (see foretide apps), or a topology: a .toml, .yaml, .yml or .py file (or FILE.py:NAME)."
SETTINGS_HELP = "An option of the application, such as lookup_ms=5; once for each."

_EXAMPLE = "'lookup_ms=5'"


def load_topology_argument(named: str | Path, settings: Sequence[str] = ()) -> Topology:
    """Return the topology of an application, or of a file.

    Parameters
    ----------
    named : str or path
        The name of an application, or the path of a file. A name without a suffix that no file has is taken as
        an application's.
    settings : sequence of str
        Options of the application, each ``name=value``.

    Raises
    ------
    ConfigError
        When there is no such application, an option is wrong, or options are given for a file.
    TopologyError
        When the file is wrong.
    """
    file, options = Path(named), parse_settings(settings)
    if file.suffix or file.exists():
        return _from_file(file, options)
    return _find(str(named)).build(options)


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """Read options of an application.

    >>> parse_settings(["lookup_ms=5", "store=out/a=b.db"])
    {'lookup_ms': '5', 'store': 'out/a=b.db'}
    """
    found: dict[str, str] = {}
    for text in settings:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals):
            raise ConfigError("--set", expected=f"name=value, such as {_EXAMPLE}", got=repr(text))
        if name in found:
            raise ConfigError("--set", expected=f"{name!r} once", got="twice", remedy="leave one out")
        found[name] = value
    return found


def _find(name: str) -> App[Any]:
    from foretide.apps import find_app

    try:
        return find_app(name)
    except ConfigError as error:
        expected = f"a .toml, .yaml, .yml or .py file, or an application: {error.expected}"
        raise ConfigError("topology", expected=expected, got=error.got, remedy=error.remedy) from error


def _from_file(file: Path, options: Mapping[str, str]) -> Topology:
    from foretide.topology.loader import load_topology

    if options:
        raise ConfigError(
            "--set",
            expected="an application, which has options",
            got=f"the file {str(file)!r}",
            remedy="change the file, or name an application",
        )
    return load_topology(file)
