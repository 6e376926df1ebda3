"""What every section of a recipe has in common."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Auto = Literal["auto"]
Word = Annotated[str, Field(min_length=1)]
PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """A closed section: an unknown key is an error, a value is never converted (8.0 is no whole number)."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        defer_build=True,
        protected_namespaces=(),
        model_title_generator=lambda model: model.__name__.removesuffix("Section"),  # what an editor shows
    )


class OpenSection(Section):
    """A section that also takes every field of a library class; those are checked against the target's facts."""

    model_config = ConfigDict(extra="allow")
