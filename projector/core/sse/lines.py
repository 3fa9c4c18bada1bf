"""Bytes into lines: the only place that knows line ends and the byte order mark."""

from __future__ import annotations

from typing import Final

BOM: Final = b"\xef\xbb\xbf"


class Lines:
    """Cut bytes at LF, CRLF and CR, without the byte order mark, in linear time."""

    def __init__(self) -> None:
        self.rest: bytes | bytearray = b""  # of an unfinished line
        self._is_after_cr = False
        self._is_first = True

    def feed(self, data: bytes) -> list[bytes]:
        """Give the lines that are now whole, without their ends."""
        if self._is_after_cr or b"\r" in data:
            data = self._with_lf_only(data)
        if b"\n" not in data:
            if type(self.rest) is bytes:
                self.rest = bytearray(self.rest)  # grows in place, since a huge line may come byte by byte
            self.rest += data
            if self._is_first and len(self.rest) >= len(BOM):
                self._is_first = False
                self.rest = self.rest.removeprefix(BOM)
            return []
        lines = data.split(b"\n")
        if self.rest:
            lines[0] = b"".join((self.rest, lines[0]))
        self.rest = lines.pop()
        if self._is_first:
            self._is_first = False
            lines[0] = lines[0].removeprefix(BOM)
        return lines

    def close(self) -> bytes:
        """Give the line that has no end, empty where there is none."""
        last = bytes(self.rest)
        self.rest = b""
        return last.removeprefix(BOM) if self._is_first else last

    def _with_lf_only(self, data: bytes) -> bytes:
        """Write each line end as LF. A CR ends its line at once; an LF that follows it says nothing more."""
        if not data:
            return data
        is_second_half = self._is_after_cr and data.startswith(b"\n")
        self._is_after_cr = data.endswith(b"\r")
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data[1:] if is_second_half else data
