"""Training models beforehand, and keeping them on disk.

May import `forecast`.
"""
