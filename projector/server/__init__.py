"""The server, and its parts for other applications. Only this package waits, reads a clock or opens sockets.

Each name is imported from its module on first access.
"""

from __future__ import annotations

TYPE_CHECKING = False  # defined here, because importing `typing` takes milliseconds
if TYPE_CHECKING:
    from projector.server.app import create_app
    from projector.server.config.loading import load_settings
    from projector.server.config.settings import Settings
    from projector.server.config.upstream_settings import Timeouts
    from projector.server.response import ProjectingMiddleware, Projection, PublicSSEResponse, public_stream
    from projector.server.streaming.host_source import AgentRun, HostEvent
    from projector.server.streaming.workflow_source import HeadlessWorkflow, workflow
    from projector.server.telemetry.stream_stats import Terminal
    from projector.server.tools.tool_loop import ToolLoop
    from projector.server.tools.turns import Turn
    from projector.server.upstream.protocol import UpstreamError

__all__ = [
    "AgentRun",
    "HeadlessWorkflow",
    "HostEvent",
    "ProjectingMiddleware",
    "Projection",
    "PublicSSEResponse",
    "Settings",
    "Terminal",
    "Timeouts",
    "ToolLoop",
    "Turn",
    "UpstreamError",
    "create_app",
    "load_settings",
    "public_stream",
    "workflow",
]

_MODULES = {
    "AgentRun": "streaming.host_source",
    "HostEvent": "streaming.host_source",
    "HeadlessWorkflow": "streaming.workflow_source",
    "ProjectingMiddleware": "response",
    "Projection": "response",
    "PublicSSEResponse": "response",
    "Settings": "config.settings",
    "Terminal": "telemetry.stream_stats",
    "Timeouts": "config.upstream_settings",
    "ToolLoop": "tools.tool_loop",
    "Turn": "tools.turns",
    "UpstreamError": "upstream.protocol",
    "create_app": "app",
    "load_settings": "config.loading",
    "public_stream": "response",
    "workflow": "streaming.workflow_source",
}

if not TYPE_CHECKING:  # a type checker must report unknown names

    def __getattr__(name: str) -> object:
        """Import a public name on first access."""
        if name not in _MODULES:
            raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
        import importlib  # noqa: PLC0415 - only when a name is used

        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        """Return the public names, imported or not."""
        return sorted({*globals(), *__all__})
