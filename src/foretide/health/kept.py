"""Models of workers, kept from one run of a topology to the next: in a folder, or in the store of runs."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from foretide.errors import ForetideError
from foretide.events import Event, EventSink, Severity
from foretide.health.models import MODEL_KINDS, WorkerModel, load_model, unpack_model
from foretide.health.models.base import VERSION
from foretide.health.predictor import ANY_MACHINE
from foretide.store import RunStore, fingerprint
from foretide.topology import Topology

__all__ = ["Keeper", "KeptModels", "ModelDirectory", "StoredModels"]


class KeptModels(Protocol):
    """Where models are kept."""

    def load(self) -> dict[str, WorkerModel]:
        """Return the models of an earlier run, by machine; empty if there are none."""
        ...

    def save(self, models: Mapping[str, WorkerModel]) -> None:
        """Keep models in place of those before."""
        ...


class Keeper(Protocol):
    """Keeps what was learnt; `RunRecorder` and `RunStore` are two."""

    def learnt(self, topology: Topology, kind: str, version: int, document: Mapping[str, Any]) -> None:
        """Keep a document in place of the one before."""
        ...


class ModelDirectory:
    """Models in a folder, one file for each machine.

    Parameters
    ----------
    path : path
        The folder; it need not exist yet.
    kind : {"linear", "idrnn"}
        Which models.
    topology : str
        The fingerprint of the topology whose workers they are about.
    """

    def __init__(self, path: str | Path, kind: str, topology: str = "") -> None:
        self.path, self._kind, self._topology = Path(path), kind, topology

    def save(self, models: Mapping[str, WorkerModel]) -> None:
        """Write models; a reader finds the old one of a machine or the new one, never half of it."""
        for machine, model in models.items():
            name = re.sub(r"[^\w.-]", "_", machine)
            model.save(self.path / f"{name}.{self._kind}")

    def load(self) -> dict[str, WorkerModel]:
        """Return the models by machine.

        Raises
        ------
        HealthModelError
            When one is damaged, of another version, of another topology or for other features.
        """
        files = sorted(self.path.glob(f"*.{self._kind}"))
        return {
            file.name.removesuffix(f".{self._kind}"): load_model(file, MODEL_KINDS[self._kind], self._topology)
            for file in files
        }


class StoredModels:
    """Models in the store of runs, where they belong to a topology and not to the run in which they were trained.

    Parameters
    ----------
    topology : Topology
        What runs.
    kind : {"linear", "idrnn"}
        Which models.
    past : RunStore, optional
        Where earlier runs are; without it, nothing is taken from them.
    keeper : Keeper, optional
        Who keeps what is trained; without it, nobody does.
    events : EventSink, optional
        Hears ``model.loaded`` and ``model.ignored``.
    """

    def __init__(
        self,
        topology: Topology,
        kind: str,
        past: RunStore | None = None,
        keeper: Keeper | None = None,
        events: EventSink | None = None,
    ) -> None:
        self._topology, self._kind, self._past, self._keeper, self._events = topology, kind, past, keeper, events

    @property
    def _name(self) -> str:
        return f"workers {self._kind}"

    def save(self, models: Mapping[str, WorkerModel]) -> None:
        """Keep models in place of those before."""
        if self._keeper is not None:
            packed = {machine: base64.b64encode(model.pack()).decode() for machine, model in models.items()}
            self._keeper.learnt(self._topology, self._name, VERSION, {"machines": packed})

    def load(self) -> dict[str, WorkerModel]:
        """Return the models by machine, the best of them for any other; what does not fit is an event."""
        try:
            return self._found()
        except (ForetideError, KeyError, AttributeError, ValueError) as error:
            self._tell("model.ignored", f"models of an earlier run are not taken over: {error}", "warning")
            return {}

    def _found(self) -> dict[str, WorkerModel]:
        known = [] if self._past is None else self._past.knowledge(self._topology.name, self._name)
        own = next((one for one in known if one.fingerprint == fingerprint(self._topology)), None)
        if own is None:
            if known:
                self._tell("model.ignored", "models of workers are of another topology of that name", "warning")
            return {}
        where, kind = f"of an earlier run, {self._name!r}", MODEL_KINDS[self._kind]
        machines = own.document()["machines"]
        models = {name: unpack_model(base64.b64decode(text), where, kind) for name, text in machines.items()}
        if models:
            best = min(models.values(), key=lambda model: model.validation_error)
            models.setdefault(ANY_MACHINE, best)
            at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(own.saved_at_s))
            self._tell("model.loaded", f"models of workers, as of {at}: {', '.join(machines)}", "info")
        return models

    def _tell(self, kind: str, message: str, severity: Severity) -> None:
        if self._events is not None:
            self._events.emit(Event(time.time(), kind, message, severity))
