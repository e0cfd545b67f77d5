"""Queues, the replicas that serve them, and the compiled loops inside.

May import `grouping`, `topology` and the settings of `sim`.
"""
