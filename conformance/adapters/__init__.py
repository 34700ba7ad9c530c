"""Adapters that stand in this distribution, one module each, imported only when they are asked for."""
