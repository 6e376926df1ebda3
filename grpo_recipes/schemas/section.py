"""The base classes of a recipe's sections."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

Auto = Literal["auto"]
Word = Annotated[str, Field(min_length=1)]
PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A closed section: an unknown key is an error, a value is never converted (8.0 is not a whole number)."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        protected_namespaces=(),
        model_title_generator=lambda model: model.__name__.removesuffix("Section"),  # shown by editors
    )


class OpenSection(Section):
    """A section that also takes every field of a library class; those are checked against the target's facts."""

    model_config = ConfigDict(extra="allow")


def fields_by_key(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields of a section by name, as in a recipe; `continue` cannot be a name in Python."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def is_required_key(field: FieldInfo) -> bool:
    """Whether a recipe has to set a key, because it has no default or its default is refused."""
    return field.is_required() or bool(field.validate_default)


def value_of_key(section: BaseModel, key: str) -> object:
    """The value of a section at a key as a recipe writes it, also for keys of a library's class."""
    aliased = f"{key}_"
    return getattr(section, aliased if aliased in type(section).model_fields else key)
