"""SQLite and PostgreSQL behind one seam: statements, schema, codec.

May import the errors of `store`, and `postgres`.
"""
