"""The papers' tables, figures and worked examples, one module each."""
