"""Commands about this machine: check it, compile for it, start a project on it, run a Kafka broker.

May import what `commands` may.
"""
