"""The interference-aware recurrent network of two tiers (SPEC I4).

May import `health` and `forecast`.
"""

from foretide.health.idrnn.model import IdrnnModel
from foretide.health.idrnn.settings import IdrnnSettings

__all__ = ["IdrnnModel", "IdrnnSettings"]
