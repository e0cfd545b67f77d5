"""Commands about this machine: check it, start a project on it, run a Kafka broker.

May import what `commands` may.
"""
