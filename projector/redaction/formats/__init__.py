"""What credentials look like (CONTRACT D25): `FORMATS`, one row for each known format, and what must pass untouched.

Where several formats begin alike, the first row that a text can still become decides; so particular rows stand before
general ones. To add a format, add a row to the table of its theme; its example and counter-example are its test.
"""

from __future__ import annotations

from typing import Final

from projector.redaction.formats.clouds import CLOUDS
from projector.redaction.formats.code_hosts import CODE_HOSTS
from projector.redaction.formats.contexts import CONTEXTS, WORD
from projector.redaction.formats.models import MODELS
from projector.redaction.formats.row import Format
from projector.redaction.formats.services import SERVICES

FORMATS: Final = (*CLOUDS, *MODELS, *CODE_HOSTS, *SERVICES, *CONTEXTS)

__all__ = ["FORMATS", "WORD", "Format"]
