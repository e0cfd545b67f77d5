"""Models of workers (SPEC I4): the interference-aware network of two tiers, and a linear one to compare it with.

May import `health` and `forecast`.
"""

from foretide.health.models.base import WorkerModel, load_model, unpack_model
from foretide.health.models.settings import IdrnnSettings
from foretide.health.models.training import MODEL_KINDS, train_model

__all__ = ["MODEL_KINDS", "IdrnnSettings", "WorkerModel", "load_model", "train_model", "unpack_model"]
