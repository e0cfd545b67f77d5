"""An application of the user's own in simulated time: queries in micro-batches that share executors.

May import `control`, `plan` and everything below them.
"""
