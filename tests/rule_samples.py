"""The shipped redaction rules with their samples; the engine loads them without."""

from __future__ import annotations

from projector.redaction.patterns import WORD
from projector.redaction.rule_files import MATERIAL, shipped_files
from projector.redaction.rules import Format, Word

FORMATS, KEY_WORDS, EXCEPTIONS, COUNTS, CONTEXTS, CLASSES = shipped_files()
MIXED = MATERIAL["mixed"]

__all__ = ["CLASSES", "CONTEXTS", "COUNTS", "EXCEPTIONS", "FORMATS", "KEY_WORDS", "MIXED", "WORD", "Format", "Word"]
