"""The extras of the package: what each installs, and one way to report that one is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from types import MappingProxyType

from foretide.errors import MissingExtraError

__all__ = ["EXTRAS", "extra_with", "missing_modules", "needs_extra"]

#: The extras that users may want, each with the modules that it installs; pyproject.toml names the packages.
EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "spark": ("pyspark", "pyarrow", "pandas", "psutil", "lmdb", "google"),
        "statistics": ("statsmodels", "sklearn"),
        "boost": ("lightgbm",),
        "deep": ("jax", "equinox", "optax"),
        "train": ("jax",),
        "baselines": ("statsforecast",),
        "plots": ("matplotlib", "plotly"),
        "service": ("fastapi", "starlette", "prometheus_client", "uvicorn"),
        "kafka": ("confluent_kafka", "psutil", "pyarrow"),
        "postgres": ("psycopg",),
        "objects": ("obstore",),
        "hdfs": ("hdfs_native",),
    }
)


def missing_modules(extra: str) -> tuple[str, ...]:
    """Return the modules of an extra that are not installed; empty for an unknown extra."""
    return tuple(module for module in EXTRAS.get(extra, ()) if find_spec(module) is None)


def extra_with(module: str | None) -> str | None:
    """Return the extra that installs a module, or None.

    >>> extra_with("plotly.subplots"), extra_with("tkinter")
    ('plots', None)
    """
    top = (module or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), None)


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Turn the failed import of a module of `extra` within the block into an error that names the extra.

    Parameters
    ----------
    extra : str
        The extra.
    what : str
        What needs it.

    Raises
    ------
    MissingExtraError
        When one of its modules is not installed.

    Examples
    --------
    >>> with needs_extra("plots", "figure"):
    ...     raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
    Traceback (most recent call last):
    foretide.errors.MissingExtraError: figure: expected plotly to be installed, got none; pip install 'foretide[plots]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        top = (error.name or "").partition(".")[0]
        if top not in EXTRAS[extra]:
            raise
        raise MissingExtraError(what, extra, (top,)) from error
    except ImportError as error:
        if isinstance(error, MissingExtraError) or (error.name or "").startswith("foretide"):
            raise
        # It is installed but lacks a library that it needs, as psycopg may lack libpq.
        raise MissingExtraError(what, extra, EXTRAS[extra], str(error).partition("\n")[0]) from error
