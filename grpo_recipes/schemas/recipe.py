"""The recipe: all sections, with the values of format 1 where a file says nothing."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from grpo_recipes.schemas.dataset import Dataset
from grpo_recipes.schemas.distributed import Distributed
from grpo_recipes.schemas.evaluation import Evaluation
from grpo_recipes.schemas.generation import Generation
from grpo_recipes.schemas.grpo import Grpo
from grpo_recipes.schemas.guards import Guards
from grpo_recipes.schemas.launch import Launch
from grpo_recipes.schemas.logging import Logging
from grpo_recipes.schemas.lora import Lora
from grpo_recipes.schemas.model import Model
from grpo_recipes.schemas.quantization import Quantization
from grpo_recipes.schemas.reward import Reward
from grpo_recipes.schemas.section import NonNegativeInt, Section, Word
from grpo_recipes.schemas.slurm import Slurm
from grpo_recipes.schemas.tokenizer import Tokenizer
from grpo_recipes.schemas.training import Training
from grpo_recipes.schemas.vllm_server import VllmServer


class Recipe(Section):
    """One GRPO experiment and how it is run."""

    model_config = ConfigDict(defer_build=False, title="grpo-run recipe")

    recipe: Literal[1]
    """Version of this format."""
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    """Short name, part of the run folder's name: small letters, digits, dot, dash, underscore."""
    description: str = ""
    """What is trained, on what, in a sentence."""
    seed: Annotated[NonNegativeInt, Field(le=2**32 - 1)] = 42
    """Seed of weights, data order and sampling."""
    extends: Word | None = None
    """A recipe that this one stands on: a file relative to this one, also without .yaml, or grpo-recipes:NAME.

    This file's keys win: maps merge, null removes, lists replace, and `{extend: [...]}` adds to a parent's list.
    """
    model: Model
    tokenizer: Tokenizer = Tokenizer()
    quantization: Quantization | None = None
    lora: Lora | None = None
    dataset: Dataset
    rewards: Annotated[list[Reward], Field(min_length=1)]
    """What a completion is worth: the weighted sum of these."""
    evaluation: Evaluation | None = None
    generation: Generation = Generation()
    vllm_server: VllmServer = VllmServer()
    grpo: Grpo = Grpo()
    training: Training
    distributed: Distributed = Distributed()
    launch: Launch = Launch()
    slurm: Slurm = Slurm()
    logging: Logging = Logging()
    guards: Guards = Guards()
    trl: dict[str, Any] = {}
    """Any other GRPOConfig field, checked against the target."""
