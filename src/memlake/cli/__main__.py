"""`python -m memlake.cli`, the same as the `memlake` command."""

from __future__ import annotations

import sys

from memlake.cli.main import main

sys.exit(main())
