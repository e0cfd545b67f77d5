"""SQLite and PostgreSQL behind one seam: statements, schema, codec. May import the store's errors."""
