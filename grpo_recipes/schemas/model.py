"""`model`: the policy that is trained."""

from typing import Literal

from grpo_recipes.schemas.section import Section, Word


class ModelSection(Section):
    """The policy that is trained."""

    model_name_or_path: Word
    """Hub id, or a folder: `./folder` or an existing path is local, relative to the file that says it."""
    model_revision: Word | None = None
    """Branch, tag or commit of the hub model. null is the newest commit of its main branch."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of the weights. float32 is what TRL loads when nothing is said; the machine never chooses."""
    attn_implementation: Word = "auto"
    """Attention kernel, e.g. sdpa, flash_attention_2, eager. auto leaves it to transformers, by machine."""
    trust_remote_code: bool = False
    """Run the Python code that comes with the model. It is listed and must be allowed before a run."""
