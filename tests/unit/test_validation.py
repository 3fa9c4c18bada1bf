"""Texts for validation errors: names and expectations, the nearest known name, never a value."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from projector._validation import FIELDS_MAX, describe, invalid_fields, path_name

SECRET = "correct horse battery"


class Text(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str = Field(min_length=1, max_length=5)


class Count(BaseModel):
    model_config = ConfigDict(extra="forbid")

    type: Literal["count"]
    count: int = Field(ge=1, multiple_of=2)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid")

    speed: int = 1
    size: int = 1


class Other(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = 1


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    share: float = Field(0.5, gt=0, le=1.0)
    mode: Literal["fast", "slow"] = "fast"
    items: list[Annotated[Text | Count, Field(discriminator="type")]] = []
    tables: dict[str, Text] = {}
    model: Model | None = None
    other: Other = Other()

    @field_validator("name")
    @classmethod
    def _is_lower(cls, name: str) -> str:
        if not name.islower():
            raise ValueError("expected lower case")
        return name


CASES = [
    ({}, "`name` is missing"),
    ({"name": 7}, "`name` must be a string"),
    ({"name": SECRET.upper()}, "`name`: expected lower case"),
    ({"nam": SECRET, "name": "a"}, "`nam` is unknown; did you mean `name`?"),
    ({"nam": SECRET}, "`nam` is unknown; did you mean `name`?; `name` is missing"),
    ({"name": "a", SECRET: 1}, "`?` is unknown"),
    ({"name": "a", "speed": 2}, "`speed` is unknown; did you mean `model.speed`?"),
    ({"name": "a", "size": 2}, "`size` is unknown; did you mean `model.size` or `other.size`?"),
    ({"name": "a", "share": 0}, "`share` must be greater than 0"),
    ({"name": "a", "share": 2}, "`share` must be at most 1"),
    ({"name": "a", "share": SECRET}, "`share` must be a number"),
    ({"name": "a", "mode": SECRET}, "`mode` must be 'fast' or 'slow'"),
    ({"name": "a", "items": SECRET}, "`items` must be a list"),
    ({"name": "a", "items": [{"type": SECRET}]}, "`items[0]` has an unsupported 'type'; expected 'text', 'count'"),
    ({"name": "a", "items": [{}]}, "`items[0]` has no 'type'"),
    ({"name": "a", "items": [{"type": "text", "text": ""}]}, "`items[0].text` must not be empty"),
    ({"name": "a", "items": [{"type": "text", "text": SECRET}]}, "`items[0].text` must have at most 5 characters"),
    ({"name": "a", "items": [{"type": "count", "count": 3}]}, "`items[0].count` must be a multiple of 2"),
    ({"name": "a", "items": [{"type": "count", "cnt": 3, "count": 2}]}, "`items[0].cnt` is unknown; did you mean"),
    ({"name": "a", "tables": {"b": {"type": "text", "txt": "", "text": "c"}}}, "did you mean `tables.b.text`?"),
    (SECRET, "`request` must be an object"),
]


@pytest.mark.parametrize(("value", "expected"), CASES, ids=[expected for _, expected in CASES])
def test_texts(value: object, expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Request.model_validate(value)
    text = describe(caught.value, value, Request, root="request")
    assert expected in text
    assert SECRET not in text


def test_a_hostile_input_is_reported_in_part() -> None:
    value = {"name": "a", **{f"x{number}": 1 for number in range(1000)}}
    with pytest.raises(ValidationError) as caught:
        Request.model_validate(value)
    assert len(invalid_fields(caught.value, value)) == FIELDS_MAX


def test_paths() -> None:
    assert path_name(("a", 0, "b c", "d")) == "a[0].?.d"
    assert path_name(("a", "b c"), is_masked=False) == "a.b c"
