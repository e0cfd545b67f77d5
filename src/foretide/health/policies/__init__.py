"""Rules that decide which workers misbehave (SPEC I6), one per file; other packages add theirs.

May import `health`.
"""

from foretide.health.policies.base import HealthPolicy, HealthView, Verdict, WorkerView
from foretide.health.policies.peers import PeersPolicy
from foretide.health.policies.predicted_slowdown import PredictedSlowdownPolicy
from foretide.health.policies.prediction_error import PredictionErrorPolicy
from foretide.health.policies.registry import HEALTH_POLICIES, make_health_policy

__all__ = [
    "HEALTH_POLICIES",
    "HealthPolicy",
    "HealthView",
    "PeersPolicy",
    "PredictedSlowdownPolicy",
    "PredictionErrorPolicy",
    "Verdict",
    "WorkerView",
    "make_health_policy",
]
