"""The code blocks of docs/frontend-events.md, copied from the client: run it to print them into the page."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "frontend-events.md"
CLIENT: Final = ROOT / "clients" / "typescript"
REDUCER: Final = (CLIENT / "src" / "reduce.ts").read_text(encoding="utf-8")
ANSWER: Final = (CLIENT / "tests" / "answer.tsx").read_text(encoding="utf-8")
_BLOCK: Final = re.compile(r"(?<=^<!-- copied: )([^\n]+)( -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)
_ROW: Final = re.compile(r'^    "?([\w.]+)"?: (\w+)(?:\(.*\))?,$', re.MULTILINE)

HANDLERS: Final = dict(_ROW.findall(REDUCER.partition("Object.entries({")[2].partition("} satisfies")[0]))
"""Kind -> name of the function that reduces it."""


def sample(*kinds: str) -> str:
    """Return the JSON of an event of each kind, one a line."""
    from projector.generate.pages import sample_block  # noqa: PLC0415 - a script has the repository on its path first

    return "\n".join(["```json", *(sample_block(kind)[1] for kind in kinds), "```"])


def reducer(*kinds: str) -> str:
    """Return the names of the functions that reduce some kinds."""
    names = [f"`{name}`" for name in dict.fromkeys(HANDLERS[kind] for kind in kinds)]
    return f"Reducer: {', '.join(names)}"


def rendering(section: str) -> str:
    """Return a section of the answer."""
    code = ANSWER.partition(f"// section: {section}\n")[2].partition("\n// section:")[0].strip()
    assert code, section
    return f"```tsx\n{code}\n```"


WRITERS: Final[Mapping[str, Callable[..., str]]] = {"sample": sample, "reducer": reducer, "rendering": rendering}


def printed(page: str) -> str:
    """Return the page with its blocks up to date."""

    def block(found: re.Match[str]) -> str:
        name, *arguments = found[1].split()
        return f"{found[1]}{found[2]}\n{WRITERS[name](*arguments)}\n\n"

    return _BLOCK.sub(block, page)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(printed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
