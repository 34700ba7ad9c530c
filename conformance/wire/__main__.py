"""`python -m conformance.wire`: the same as `kv-conformance wire`."""

import sys

from conformance.wire.command import main

sys.exit(main())
