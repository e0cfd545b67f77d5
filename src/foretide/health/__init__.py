"""Which workers misbehave, and what to do about it (SPEC I3-I6); readings of hosts and processes.

May import `forecast`, `store` and what lies below them; never Spark.
"""
