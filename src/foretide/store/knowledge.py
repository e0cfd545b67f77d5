"""What was learnt about a topology, kept from one run to the next."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foretide.store.databases.codec import to_json
from foretide.store.databases.database import Row
from foretide.store.errors import StoreError
from foretide.store.rows import TableRow
from foretide.topology import Topology

__all__ = ["StoredKnowledge", "fingerprint", "knowledge_of", "knowledge_row"]


@dataclass(frozen=True, kw_only=True)
class StoredKnowledge:
    """A document of something learnt.

    Parameters
    ----------
    topology : str
        The name of the topology that it is about.
    fingerprint : str
        What identifies that topology, see `fingerprint`.
    kind : str
        Who has learnt it, such as ``planner foretide``.
    version : int
        The version of the document's form.
    saved_at_s : float
        When, in seconds since the Unix epoch.
    text : str
        The document, as JSON.
    """

    topology: str
    fingerprint: str
    kind: str
    version: int
    saved_at_s: float
    text: str

    def document(self) -> Mapping[str, Any]:
        """Return the document.

        Raises
        ------
        StoreError
            When it is damaged.
        """
        try:
            found = json.loads(self.text)
        except ValueError as error:
            raise StoreError(f"knowledge of {self.kind!r}: expected a document in JSON, got {error}") from error
        if not isinstance(found, dict):
            raise StoreError(f"knowledge of {self.kind!r}: expected an object, got {type(found).__name__}")
        return found


def fingerprint(topology: Topology) -> str:
    """Return what identifies a topology: its elements and how they are joined, whatever their bounds and options.

    >>> from foretide.topology import flow
    >>> one, two, three = flow("words"), flow("words"), flow("words")
    >>> _ = one.source("in").operator("count", replicas=(1, 4))
    >>> _ = two.source("in").operator("count", replicas=(1, 8))
    >>> _ = three.source("in").operator("count", queued=True)
    >>> fingerprint(one.build()) == fingerprint(two.build()) != fingerprint(three.build())
    True
    """
    layout = topology.layout
    modes = [operator.mode for operator in topology.operators]
    transports = [edge.transport for edge in topology.edges]
    text = json.dumps([topology.name, layout.sources, layout.operators, layout.edges, modes, transports])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def knowledge_row(
    run_id: str, seq: int, topology: Topology, kind: str, version: int, saved_at_s: float, document: Mapping[str, Any]
) -> TableRow:
    """Return a document as a row; it belongs to a topology, not to the run in which it was learnt."""
    return "knowledge", (topology.name, fingerprint(topology), kind, version, saved_at_s, to_json(document))


def knowledge_of(row: Row) -> StoredKnowledge:
    """Return the document of a row."""
    topology, fingerprint, kind, version, saved_at_s, text = row
    return StoredKnowledge(
        topology=topology,
        fingerprint=fingerprint,
        kind=kind,
        version=int(version),
        saved_at_s=saved_at_s,
        text=text,
    )
