"""A provider's stream as a case for `projector replay`, redacted (ADR 12).

    withholding    bytes -> the data of each message, as one JSON value without secrets
    cases          values -> files of a case
    drift          two recordings -> what changed between them
    replay         cases -> output, compared with goldens

Nothing here waits or makes an ID; `cases` and `replay` write files.
"""

from __future__ import annotations

from projector.recording.cases import Recording, check_name, record, write
from projector.recording.withholding import Withheld, withhold

__all__ = ["Recording", "Withheld", "check_name", "record", "withhold", "write"]
