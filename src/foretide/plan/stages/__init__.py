"""Slots per stage, where operators share them: what batches take, what that means for latency, which slots to choose.

May import `records`, `topology`, and of `plan` the contract, scenarios and promises.
"""
