"""`model`: the policy that is trained."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from grpo_recipes.schemas.section import Section, Word


class ModelSection(Section):
    """The policy that is trained."""

    from_run: Word | None = None
    """A run to continue from: its run folder, one of its checkpoints, or the folder or hub id of a PEFT adapter. Model,
    revision, tokenizer with its added tokens, chat template and adapter come from it. null: start from
    model_name_or_path.
    """
    model_name_or_path: Annotated[Word | None, Field(validate_default=True)] = None
    """Hub id, or a folder: `./folder` or an existing path is local, relative to this file. Required, except with
    from_run, where it is the current path of the adapter's model.
    """
    model_revision: Word | None = None
    """Branch, tag or commit of the hub model. null: the newest commit of its main branch."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of the weights. float32 is TRL's default; the machine never chooses."""
    attn_implementation: Word = "auto"
    """Attention kernel, e.g. sdpa, flash_attention_2, eager. auto: transformers chooses by machine."""
    trust_remote_code: bool = False
    """Run the Python code that comes with the model. A run lists it and asks for consent."""

    @field_validator("model_name_or_path")
    @classmethod
    def _is_said_somewhere(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None and info.data.get("from_run") is None:
            raise PydanticKnownError("missing")
        return value
