"""Reference implementations that know nothing of the kit: `layer` and `attention` (NumPy, float64), `exact`.

Nothing is imported here, so that whoever wants one of them pays for that one alone.
"""
