"""The planners, one file each, named after their paper.

May import `plan` and what lies below it.
"""
