"""`python -m conformance`: the same as `kv-conformance`."""

import sys

from conformance.cli import main

sys.exit(main())
