"""Server-sent events in both directions: bytes to messages, messages to bytes (WHATWG HTML, section 9.2).

The only place that knows line ends, byte order marks and SSE fields. Bytes are cut into lines first (`lines`) and
decoded later, so a read may end inside a line end, a mark or a character. Three decoders share one shape: `SseDecoder`
(`decoder`), `NdjsonDecoder` for recorded streams and `AutoDecoder`, which picks one of the two (`recorded`).

Where they differ from the standard, because they read a provider's answer to one request:

1. An unfinished last event is returned if its data is whole: JSON, or the end mark of Chat streams (CONTRACT D12).
2. An event is bounded: the bytes of all its lines together, without line ends.
3. Content without a single message is a fault at the end: an error page, a bare JSON body, events without data.
   Comments and blanks are no content; a stream of them alone is empty. Empty data is no message in this sense.
4. `id` and `retry` mean nothing: the stream is not reconnected to.
5. `message_fields` names unknown fields of which each line is a message of its own, under the field's name: one
   provider says `error: {...}` and hangs up. Such a line ends the event before it.
"""

from __future__ import annotations

from projector.core.sse.decoder import SseDecoder
from projector.core.sse.encoder import encode_comment, encode_events, encode_sse
from projector.core.sse.messages import DONE, SseMessage
from projector.core.sse.recorded import AutoDecoder, NdjsonDecoder

__all__ = [
    "DONE",
    "AutoDecoder",
    "NdjsonDecoder",
    "SseDecoder",
    "SseMessage",
    "encode_comment",
    "encode_events",
    "encode_sse",
]
