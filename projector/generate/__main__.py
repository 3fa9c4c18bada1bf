"""`python -m projector.generate`."""

from __future__ import annotations

import sys

from projector.generate import main

if __name__ == "__main__":
    sys.exit(main())
