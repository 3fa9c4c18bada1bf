"""Checks of settings against the system that they are used on: what would otherwise fail at the start, or later.

`config check`, the start and a reload run the same checks. The settings themselves have been validated before.
"""

from __future__ import annotations

import os
from pathlib import Path

from projector.server.config.loading import SettingsError
from projector.server.config.settings import Settings


def check_system(settings: Settings) -> None:
    """Raise `SettingsError` for the first setting that this system cannot provide."""
    _check_memory(settings)
    for name, agent in settings.agents.items():
        if agent.record is not None:
            _check_folder(f"agents.{name}.record.folder", agent.record.folder)


def _check_memory(settings: Settings) -> None:
    limits = settings.limits
    if limits.max_memory_bytes < limits.max_body_bytes:
        raise SettingsError(
            f"`limits.max_memory_bytes` must be at least `limits.max_body_bytes` ({limits.max_body_bytes}):"
            " one request may need as much"
        )


def _check_folder(name: str, folder: Path) -> None:
    """Raise `SettingsError` if a folder cannot be written to, or not be created."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise SettingsError(f"`{name}`: {nearest} is not a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise SettingsError(f"`{name}`: {nearest} is not writable")
