"""Sources that a provider names beside the text, as annotations of the message.

Some send OpenAI's annotations, nested or flat, some lists of addresses or search results with every chunk: each source
is given once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from projector.core import canonical as read

Annotation: TypeAlias = Mapping[str, object]


class Citations:
    """The sources of one response, each given once."""

    def __init__(self) -> None:
        self._given: set[object] = set()
        self._urls: set[str] = set()

    def of_message(self, annotations: Iterable[Annotation]) -> list[Annotation]:
        """Read annotations: members stand flat, or in an object under the name of the type."""
        return self._new(map(_flat, annotations))

    def of_chunk(self, chunk: Mapping[str, object]) -> list[Annotation]:
        """Read `search_results` and `citations`, which have no place in the text; titles stand in the first."""
        results = read.mappings(chunk, "search_results")
        addresses = [{"url": url} for url in read.texts(chunk, "citations")] + read.mappings(chunk, "citations")
        new: list[Annotation] = []
        for source in [*results, *addresses]:
            url = read.text_or_none(source, "url")
            if url is None or url in self._urls:
                continue
            title = read.text_or_none(source, "title")
            new += self._new([{"type": "url_citation", "url": url} | ({"title": title} if title else {})])
        return new

    def _new(self, annotations: Iterable[Annotation]) -> list[Annotation]:
        new = []
        for annotation in annotations:
            key = tuple(sorted(annotation.items(), key=lambda member: member[0]))
            if key not in self._given:
                self._given.add(key)
                if (url := read.text_or_none(annotation, "url")) is not None:
                    self._urls.add(url)
                new.append(annotation)
        return new


def _flat(annotation: Annotation) -> Annotation:
    """Give the annotation as the Responses API has it, with texts and numbers only."""
    nested = read.mapping_or_empty(annotation, read.text_or_none(annotation, "type") or "")
    return {
        name: value for name, value in [*annotation.items(), *nested.items()] if isinstance(value, str | int | float)
    }
