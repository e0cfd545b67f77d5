"""Signals of the user's own, in place of the measured rate or beside it: a function, or a column of the store.

May import what `control` may.
"""
