"""What outlives a process: the store of runs, the run-time configuration, the layout of a run's directory.

May import `topology`, `records`, `postgres` and the small modules.
"""

from foretide.store.arrivals import Arrivals
from foretide.store.decisions import StoredDecision, StoredFailure
from foretide.store.errors import DatabaseError, StoreError, StoreVersionError, UnknownRunError
from foretide.store.knowledge import StoredKnowledge, fingerprint
from foretide.store.reading import News, RecordedRun, Resumed
from foretide.store.recorder import RunRecorder
from foretide.store.retention import Tidied
from foretide.store.runs import RunStore
from foretide.store.runtime import Override, RuntimeConfig, RuntimeStore
from foretide.store.samples import FeatureSample, LatencySample, RunInfo, RunSpec
from foretide.store.settings import StoreSettings, default_store, default_store_path

__all__ = [
    "Arrivals",
    "DatabaseError",
    "FeatureSample",
    "LatencySample",
    "News",
    "Override",
    "RecordedRun",
    "Resumed",
    "RunInfo",
    "RunRecorder",
    "RunSpec",
    "RunStore",
    "RuntimeConfig",
    "RuntimeStore",
    "StoreError",
    "StoreSettings",
    "StoreVersionError",
    "StoredDecision",
    "StoredFailure",
    "StoredKnowledge",
    "Tidied",
    "UnknownRunError",
    "default_store",
    "default_store_path",
    "fingerprint",
]
