"""Run the command line as `python -m projector`."""

from projector.cli import main

raise SystemExit(main())
