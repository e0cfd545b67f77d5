"""Recorded input rates, and generated events that follow them.

May import `topology` and the small modules.
"""

from foretide.traces.loading import TraceError, known_traces, load_trace
from foretide.traces.payloads import Payload, known_payloads, payload
from foretide.traces.rate_trace import RateTrace
from foretide.traces.replay import Replay

__all__ = [
    "Payload",
    "RateTrace",
    "Replay",
    "TraceError",
    "known_payloads",
    "known_traces",
    "load_trace",
    "payload",
]
