"""Limits of the contract, with their units in the names. Characters are Unicode code points.

The first group is section 8.1 of the seed contract, the second CONTRACT D14, D26 and D27, the third this project's own.
These are defaults; a policy may change some of them.
"""

from __future__ import annotations

from typing import Final

# section 8.1
ARGUMENTS_JSON_STRING_MAX_CHARS: Final = 4_000
ARGUMENTS_TEXT_MAX_CHARS: Final = 8_000
OUTPUT_STRING_MAX_CHARS: Final = 8_000
FILE_SEARCH_RESULTS_MAX_ITEMS: Final = 10
FILE_SEARCH_TEXT_MAX_CHARS: Final = 2_000
IMAGE_CHUNK_MAX_CHARS: Final = 131_072

# D14, D26, D27
ERROR_MESSAGE_MAX_CHARS: Final = 500
NOTICES_MAX_ITEMS: Final = 32
FRAME_MAX_BYTES: Final = 262_144
CONTAINER_MAX_ENTRIES: Final = 1_000
CONTAINER_MAX_DEPTH: Final = 64
ID_MAX_CHARS: Final = 256
NAME_MAX_CHARS: Final = 256
KEY_MAX_CHARS: Final = 256
TITLE_MAX_CHARS: Final = 500
URL_MAX_CHARS: Final = 4_096

# of this project
EVENT_MAX_BYTES: Final = 32 * 1024 * 1024  # one SSE event of the provider: a 20 MB image in base64 fits
EVENT_LINES_MAX: Final = 65_536  # data lines of one event; indented JSON of a whole response has some tens of thousands
EVENT_VALUES_MAX: Final = 200_000  # JSON values in one event; a whole response has some tens of thousands
EVENT_TEXT_MAX_BYTES: Final = 8 * 1024 * 1024  # a string of an event that is not ASCII, unlike an image
LENIENT_MAX_BYTES: Final = 8 * 1024 * 1024  # JSON with lone surrogates, NaN or malformed UTF-8, which takes longer
TEXT_MAX_CHARS: Final = 4_194_304  # of one event: far more than a model generates, unlike an image
ITEMS_MAX: Final = 2_048  # items of a stream, and parts of their texts; an agent with 500 calls has some 1,500
DELTA_MAX_CHARS: Final = 32_768  # at six bytes per escaped character 196,608 bytes, less than FRAME_MAX_BYTES
QUERY_MAX_CHARS: Final = 2_000  # a search query or a revised prompt
REQUEST_TEXT_MAX_CHARS: Final = 1_000_000  # longer than any context window; a body is smaller by default
REQUEST_ITEMS_MAX: Final = 1_000  # messages, calls and outputs of a conversation
