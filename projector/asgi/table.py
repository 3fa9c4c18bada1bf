"""What every table of the configuration is made of."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from projector._errors import known_name
from projector.dialects import DIALECTS

DEFAULT_DIALECT: Final = "public_sse_v1"

Dialect: TypeAlias = Annotated[str, AfterValidator(lambda name: known_name("dialect", name, DIALECTS))]
Dialects: TypeAlias = Annotated[tuple[Dialect, ...], Field(min_length=1)]
Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$")]
BaseUrl: TypeAlias = Annotated[str, StringConstraints(pattern=r"^https?://[^@\s?#]+$")]
"""Of another server: without a user or a key in it, which would be printed."""


class Table(BaseModel):
    """One table of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
