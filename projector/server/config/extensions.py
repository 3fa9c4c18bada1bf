"""Tables of extensions: optional subpackages with a table of their own in the settings.

An extension is a row of `EXTENSIONS` and a field of `Settings`. It is imported when its table is configured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from projector._registry import Registry
from projector.server.config.config_base import Table


class ExtensionSettings(Table, ABC):
    """The table of an extension; an empty table in the configuration enables it."""

    extension: ClassVar[str]
    """Where the class of the extension is, as `module:name`. `projector.server.app` creates it, with its table."""

    @abstractmethod
    def check(self, agents: Mapping[str, Any], workflows: Mapping[str, Any]) -> None:
        """Raise `ValueError` if it does not fit the agents and workflows; an agent that is None has the defaults."""


EXTENSIONS: Final[Registry[type[ExtensionSettings]]] = Registry(
    {"openwop": "projector.openwop.settings:OpenWopSettings"}
)
"""Name of the table -> its settings."""
