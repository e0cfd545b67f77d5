"""Recorded input rates, and generated events that follow them.

Rates need numpy alone; events need Arrow, so their names are imported when they are first used.
May import `topology` and the small modules.
"""

from typing import TYPE_CHECKING

from foretide._lazy import lazy_names
from foretide.traces.loading import TraceError, known_traces, load_trace
from foretide.traces.made import made_trace, made_traces
from foretide.traces.rate_trace import RateTrace

if TYPE_CHECKING:
    from foretide.traces.payloads import Payload, known_payloads, payload
    from foretide.traces.replay import Replay

__all__ = [
    "Payload",
    "RateTrace",
    "Replay",
    "TraceError",
    "known_payloads",
    "known_traces",
    "load_trace",
    "made_trace",
    "made_traces",
    "payload",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Payload": "foretide.traces.payloads",
        "Replay": "foretide.traces.replay",
        "known_payloads": "foretide.traces.payloads",
        "payload": "foretide.traces.payloads",
    },
)
