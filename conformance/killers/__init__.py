"""Deliberately faulty implementations: proof that the kit sees, and the memory behind "looks like"."""
