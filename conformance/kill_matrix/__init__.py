"""The kill matrix: which requirement catches which faulty implementation, and which check nothing needs."""
