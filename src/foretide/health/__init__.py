"""Which workers misbehave, and what to do about it (SPEC I3-I6)."""
