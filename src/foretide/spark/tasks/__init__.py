"""What runs in a worker: a task reads its slice, runs operators, measures, and hands rows on.

May import nothing else of `spark` but its small modules (errors, settings, columns).
"""
