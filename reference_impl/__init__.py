"""Reference implementations that know nothing of the kit.

`exact` and `exact_decoder` are mpmath, straight from the formulas; everything else is NumPy with typed
errors: `layer`, `attention`, `paged`, `store`, `decoder`, `forge`. The two kinds share no code. Nothing is
imported here, so that whoever wants one of them pays for that one alone.
"""
