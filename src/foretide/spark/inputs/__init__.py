"""How rows come into a stage: traces, topics, queued edges and DataFrames, by position.

May import `spark.tasks`, and nothing else of `spark` but its small modules.
"""
