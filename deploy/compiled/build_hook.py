"""Build hook of hatch: compile the modules where the time of a stream is spent, with mypyc (docs/decisions/0040).

It runs only with `HATCH_BUILD_HOOK_ENABLE_CUSTOM=1`; without it the wheel is pure Python. The wheel with compiled
modules contains their source, too, which tracebacks show.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES: Final = (
    "projector/core/canonical.py",
    "projector/core/delta_frames.py",
    "projector/core/envelope.py",
    "projector/core/frames.py",
    "projector/core/growing_text.py",
    "projector/core/handlers/endings.py",
    "projector/core/handlers/items.py",
    "projector/core/handlers/messages.py",
    "projector/core/handlers/responses.py",
    "projector/core/handlers/text_channels.py",
    "projector/core/handlers/tool_calls.py",
    "projector/core/handlers/tool_fields.py",
    "projector/core/input_formats.py",
    "projector/core/intake.py",
    "projector/core/lifecycle.py",
    "projector/core/message_shape.py",
    "projector/core/pipeline.py",
    "projector/core/projector.py",
    "projector/core/reported_errors.py",
    "projector/core/sse.py",
    "projector/core/state.py",
    "projector/core/truncation.py",
    "projector/dialects/public_sse_v1/writer.py",
    "projector/providers/openai_chat/chat_stage.py",
    "projector/providers/openai_chat/chunk_fields.py",
    "projector/providers/openai_chat/deltas.py",
    "projector/providers/openai_chat/output.py",
    "projector/providers/openai_responses/responses_stage.py",
    "projector/providers/openai_responses/tagged_texts.py",
    "projector/providers/think.py",
    "projector/redaction/content_filter.py",
    "projector/redaction/continued_texts.py",
    "projector/redaction/cursor.py",
    "projector/redaction/detector.py",
    "projector/redaction/filters.py",
    "projector/redaction/format_search.py",
    "projector/redaction/gathered.py",
    "projector/redaction/joints.py",
    "projector/redaction/json_filter.py",
    "projector/redaction/json_grammar.py",
    "projector/redaction/json_members.py",
    "projector/redaction/names.py",
    "projector/redaction/neighbours.py",
    "projector/redaction/readings.py",
    "projector/redaction/spans.py",
    "projector/redaction/steps.py",
    "projector/redaction/stream.py",
    "projector/redaction/string_filter.py",
    "projector/redaction/text_filter.py",
    "projector/redaction/text_gate.py",
    "projector/redaction/text_ledger.py",
    "projector/redaction/text_search.py",
    "projector/redaction/text_stream.py",
    "projector/redaction/tree_bounds.py",
    "projector/redaction/value_contexts.py",
)
"""`tests/contract/test_compiled_modules.py` has what may not be in them.

`projector/contracts/codec.py` is not one: it calls itself for each level of a value, and compiled code has no limit of
recursion.
"""

GROUP: Final = "projector"
"""The code of all modules is in one library, `projector__mypyc`, so that they call each other directly."""


class CompiledModules(BuildHookInterface[Any]):
    """Add the compiled modules to a wheel, beside their source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the wheel is an editable one, whose source may change."""
        if version == "editable" or self.target_name != "wheel":
            return
        built = Path(self.root) / "build" / "mypyc"
        before = Path.cwd()
        os.chdir(self.root)  # mypyc names modules by their path from here
        try:
            files = compiled(built)
        finally:
            os.chdir(before)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"] |= {str(file): file.relative_to(built / "lib").as_posix() for file in files}


def compiled(built: Path) -> list[Path]:
    """Compile the modules, and return the libraries, which are in `lib` of a folder as they are in the package."""
    from mypyc.build import mypycify  # noqa: PLC0415 - only where a wheel is compiled
    from setuptools import Distribution  # noqa: PLC0415 - the same

    built.mkdir(parents=True, exist_ok=True)
    options = ["--config-file", "pyproject.toml", "--cache-dir", str(built / "types")]
    modules = mypycify([*options, *MODULES], opt_level="3", group_name=GROUP, target_dir=str(built / "c"))
    command = Distribution({"ext_modules": modules}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = str(built / "lib"), str(built / "objects")
    command.ensure_finalized()
    command.run()
    return sorted(path for path in (built / "lib").rglob("*") if path.is_file())
