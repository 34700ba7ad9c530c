"""The trace model and its YAML."""
