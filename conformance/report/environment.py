"""The machine and the versions that a run stood on; informative, never judged."""

from __future__ import annotations

import platform


def environment() -> dict[str, str]:
    """Versions of the kit, Python and NumPy, and the platform."""
    import numpy as np  # noqa: PLC0415 - a report that is only rendered needs none

    from conformance import __version__  # noqa: PLC0415 - the package's face is above this room

    return {
        "kv-conformance": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
