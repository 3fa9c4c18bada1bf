"""The code of docs/frontend-events.md compiles, and shows the sample of each event."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from projector.contracts.kinds import Kind
from projector.generate.pages import SAMPLES, golden, sample
from tests.clients.frontend_events import PAGE
from tests.clients.test_client_package import OPTIONS
from tests.clients.typescript_client import InstalledClient, ran

pytestmark = pytest.mark.node

SHOWN: Final = {
    "lifecycle": "<p>in_progress</p>",
    "output_item.added": "<p>Thinking…</p>",
    "output_item.done": "<p>in_progress</p>",
    "message.delta": "<span>The strike ended on Sunday</span>",
    "message.citation": '<a href="https://northquay.example/news/strike" rel="noopener noreferrer">Strike over</a>',
    "refusal.delta": "I&#x27;m sorry,",
    "refusal.done": "I&#x27;m sorry, but I can&#x27;t help with opening someone else&#x27;s lock",
    "reasoning_summary.delta": "<details><p>**Counting the shelves**",
    "tool.status": "<b>web_search</b> running",
    "tool.arguments.delta": "<b>get_departures</b> running<pre>{&quot;pier",
    "tool.arguments.done": "<pre>{&quot;pier&quot;:&quot;North&quot;,&quot;limit&quot;:2}</pre>",
    "tool.code.delta": "<pre>import statistics",
    "tool.code.done": "<pre>import statistics",
    "tool.output": "<pre>{&quot;celsius&quot;:4}</pre>",
    "chunk.delta": "<b>image_generation</b>",
    "chunk.done": '<img src="data:image/png;base64,iVBOR',
    "final": "<footer>completed",
    "error": '<p role="alert">The provider fell silent for too long.<button>Try again</button></p>',
}
"""Kind -> what the page shows after its sample."""


@pytest.fixture(scope="module")
def pages(client: InstalledClient) -> dict[str, list[str]]:
    """Return the page after each event of a golden, by the name of the golden."""
    lines: list[object] = [{"name": name, "events": golden(name)} for name in sorted(set(SAMPLES.values()))]
    return {one["name"]: one["html"] for one in client.run("answer.mjs", lines=lines)}


@pytest.mark.parametrize("kind", [kind.value for kind in Kind])
def test_the_page_shows_the_sample(pages: dict[str, list[Any]], kind: str) -> None:
    case = SAMPLES[kind]
    after = pages[case][golden(case).index(sample(kind))]
    assert SHOWN[kind] in after


def test_the_components_compile(client: InstalledClient) -> None:
    """As they are on the page, one after the other."""
    code = re.findall(r"^```tsx\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (client.folder / "page.tsx").write_text("\n".join(code), encoding="utf-8")
    compiler: Path = client.folder / "node_modules" / "typescript" / "bin" / "tsc"
    ran(["node", str(compiler), *OPTIONS, "page.tsx"], client.folder)
