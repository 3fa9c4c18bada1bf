"""A provider's stream as a case: its bytes in, the lines of an NDJSON file out, redacted (ADR 12).

    reading        bytes -> what each message says, as one JSON value
    places         which strings of it are pieces of one text: the shapes of the providers
    withholding    values -> values without what must not be kept
    cases          values -> a case that `projector replay` plays

Nothing here waits or makes an id; `cases` writes files.
"""

from __future__ import annotations

from projector.recording.cases import Recording, check_name, record, write
from projector.recording.withholding import Withheld, withhold

__all__ = ["Recording", "Withheld", "check_name", "record", "withhold", "write"]
