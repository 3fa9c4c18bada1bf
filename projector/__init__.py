"""Provider bytes in, browser-safe bytes out.

pipeline = build_pipeline(provider="openai_responses", dialect="public_sse_v1")
for data in upstream:
    send(pipeline.feed(data))
send(pipeline.close())

Each name is imported from its module on first access, so that `import projector` costs next to nothing. Servers import
from `projector.server`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # defined here, because importing `typing` takes milliseconds
if TYPE_CHECKING:
    from projector._errors import UsageError
    from projector.core.context import BranchContext, StreamContext
    from projector.core.faults import FAULTS, Fault
    from projector.core.intake import PipelineBranch
    from projector.core.pipeline import Pipeline, build_pipeline
    from projector.core.projector import PublicStreamProjector
    from projector.dialects import DIALECTS
    from projector.providers import PROVIDERS
    from projector.redaction.policy import Policy, PolicyError

__version__ = "0.1.0"
"""The version of the distribution; a test compares it with pyproject.toml."""

__all__ = [
    "DIALECTS",
    "FAULTS",
    "PROVIDERS",
    "BranchContext",
    "Fault",
    "Pipeline",
    "PipelineBranch",
    "Policy",
    "PolicyError",
    "PublicStreamProjector",
    "StreamContext",
    "UsageError",
    "__version__",
    "build_pipeline",
]

_MODULES = {
    "DIALECTS": "projector.dialects",
    "FAULTS": "projector.core.faults",
    "PROVIDERS": "projector.providers",
    "BranchContext": "projector.core.context",
    "Fault": "projector.core.faults",
    "Pipeline": "projector.core.pipeline",
    "PipelineBranch": "projector.core.intake",
    "Policy": "projector.redaction.policy",
    "PolicyError": "projector.redaction.policy",
    "PublicStreamProjector": "projector.core.projector",
    "StreamContext": "projector.core.context",
    "UsageError": "projector._errors",
    "build_pipeline": "projector.core.pipeline",
}

if not TYPE_CHECKING:  # a type checker must report unknown names

    def __getattr__(name: str) -> object:
        """Import a public name on first access."""
        if name not in _MODULES:
            raise AttributeError(f"module `projector` has no attribute `{name}`")
        import importlib  # noqa: PLC0415 - only when a name is used

        value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        """Return the public names, imported or not."""
        return sorted({*globals(), *__all__})
