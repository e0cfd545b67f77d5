"""The papers' tables, figures and worked examples, one module each.

May import `spark`, `sim`, `apps` and everything below them.
"""
