"""What the pytest plugin loads when an adapter is asked for."""
