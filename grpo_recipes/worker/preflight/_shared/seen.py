"""The command's options for a preflight, and the inputs of the checks: rows, prompts, the tokenizer, rewards."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.worker.data.chosen_rows import LeftOut
from grpo_recipes.worker.data.gold_rows import GoldRow
from grpo_recipes.worker.preflight._shared.reward_seen import JudgeSeen, RewardSeen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolsSeen

PLAIN = re.compile(r"\s*\{\{\s*(\w+)\s*\}\}\s*")


@dataclass(frozen=True, slots=True)
class Options:
    """How many rows a preflight examines, its limits, and the length of the run.

    rows: how many the rewards score and the report shows. time_limit: seconds for one call of a reward. memory_limit:
    bytes that a reward may use, None for four fifths of the free memory. max_steps: optimizer steps, None if epochs
    decide. batch: the plan's.
    """

    rows: int
    time_limit: float
    memory_limit: int | None
    seed: int
    max_steps: int | None
    epochs: float
    num_iterations: int
    shuffled: bool
    batch: Batch

    @property
    def completions_per_call(self) -> int:
        """Returns the completions that a reward gets per call over all processes."""
        return self.batch.prompts * self.batch.num_generations

    @property
    def calls_per_step(self) -> float:
        """Returns the generations, each scored once, per optimizer step."""
        return self.batch.accumulation / (self.batch.steps_per_generation * self.num_iterations)

    def steps_per_epoch(self, rows: int) -> int:
        """Returns the optimizer steps of `rows` rows; an incomplete generation is dropped."""
        micro_batches = rows // self.batch.prompts * self.num_iterations * self.batch.steps_per_generation
        return -(-micro_batches // self.batch.accumulation)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a section: "dataset", "evaluation" or one of several held-out sets.

    total: how many a run has. rows: the datasets.Dataset of the rendered ones, all or an evenly spaced part; prompts:
    theirs, with a digest for each image if has_images. places: their indices in the data, from 0. left_out: by the
    choice of rows, None if all are used.
    """

    where: str
    total: int
    rows: Any
    prompts: list[Any]
    places: Sequence[int]
    left_out: LeftOut | None = None
    has_images: bool = False

    def number(self, index: int) -> int:
        """Returns a row's number in the data, counted from 1."""
        return self.places[index] + 1


@dataclass(frozen=True, slots=True)
class DeclaredEnds:
    """The ends of a completion. tokens: ids, the tokenizer's own and those the model declares; stops: texts."""

    tokens: tuple[int, ...]
    stop_token_ids: tuple[int, ...]
    stops: tuple[str, ...]


@dataclass(slots=True)
class Seen:
    """Everything that the preflight examined; None for what it could not examine, with the reason in a fault.

    sample: indices in data.prompts to examine closely. texts: of the sample as the model gets them. lengths: token
    counts of the prompts at the indices `measured`, including what the environment adds; for prompts without a reset,
    the longest text added to any. pixels: the most pixel values that the processor made of a row. context: tokens that
    the model accepts. template_problem: why a prompt could not be rendered, "" if all could. processor: of a vision
    model, None for text rows. was_known: the ids of added tokens that already existed. gold: how right completions were
    made, "" without any; reference: the column they were made from; trial_texts: for each kind of completion, by row of
    the sample. tools: the result of trying them, None without any; template: the chat template that TRL uses with them
    instead of the tokenizer's, None for the tokenizer's. played_tokens: of the played completion, None if unknown.
    tools_of: of several environments, by name, {} without. held_out: each set, as far as it loads. rewards_of_sets: by
    section of each named set, the rewards that score it, called on its first row. prefills: what each prompt of the
    sample contains of its answer. disliked: guessed right answers, by name of the reward that reads them and gives them
    the least. untried: rewards that were not called with right answers, and why. golds: of the sample, of a warm start.
    unknown_names: what each function reads as columns that the rows lack.
    """

    plan: Plan
    options: Options
    faults: list[Finding] = field(default_factory=list)
    data: Rows | None = None
    held_out: list[Rows] = field(default_factory=list)
    sample: list[int] = field(default_factory=list)
    tokenizer: Any = None
    processor: Any = None
    config: Any = None
    ends: DeclaredEnds | None = None
    texts: list[str] = field(default_factory=list)
    template_problem: str = ""
    was_known: dict[str, int | None] = field(default_factory=dict)
    measured: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    pixels: int = 0
    context: int | None = None
    gold: str = ""
    trial_texts: dict[str, list[str]] = field(default_factory=dict)
    reference: str | None = None
    rewards: list[RewardSeen] = field(default_factory=list)
    judges: list[JudgeSeen] = field(default_factory=list)
    tools: ToolsSeen | None = None
    tools_of: dict[str, ToolsSeen] = field(default_factory=dict)
    template: str | None = None
    played_tokens: int | None = None
    rewards_of_sets: dict[str, list[RewardSeen]] = field(default_factory=dict)
    prefills: list[str] = field(default_factory=list)
    disliked: dict[str, str] = field(default_factory=dict)
    untried: list[str] = field(default_factory=list)
    golds: list[GoldRow | str] = field(default_factory=list)
    unknown_names: dict[str, list[str]] = field(default_factory=dict)


def template_of(inputs: Seen, column: str, expression: str) -> str | None:
    """Returns a template for a column whose value is an expression of the data's column, written {}.

    None if the recipe makes the column of more than one value. The rows may have no column of this name.
    """
    plain = PLAIN.fullmatch(inputs.plan.data.columns.get(column, f"{{{{ {column} }}}}"))
    return None if plain is None else f'{column}: "{{{{ {expression.format(plain[1])} }}}}"'


def chat_template_kwargs(inputs: Seen) -> dict[str, Any]:
    """Returns the plan's variables for the chat template."""
    given = inputs.plan.arguments.GRPOConfig.get("chat_template_kwargs")
    return dict(given) if isinstance(given, dict) else {}


def is_conversational(prompt: Any) -> bool:
    """Whether a prompt is a list of messages, by TRL's test."""
    return isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], dict) and "role" in prompt[0]


def content_of(message: Any) -> str:
    """Returns the text of a message, also of one with a list of parts."""
    content = message.get("content") if isinstance(message, dict) else message
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return "" if content is None else str(content)


def _images(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else []
    return "".join(f"[image {part.get('image')}] " for part in parts if part.get("type") == "image")


def _role(message: Any) -> str:
    return str(message.get("role")) if isinstance(message, dict) else ""


def prompt_as_text(prompt: Any) -> str:
    """Returns a whole prompt as one text, to compare prompts and search them for words."""
    if isinstance(prompt, list):
        return "\n".join(f"{_role(message)}: {_images(message)}{content_of(message)}" for message in prompt if message)
    return "" if prompt is None else str(prompt)


def tasks_of(rows: Rows, plan: Plan) -> list[str]:
    """Returns what distinguishes each row: its prompt, and with an environment also the columns that reset gets."""
    prompts = [prompt_as_text(prompt) for prompt in rows.prompts]
    if not plan.all_environments:
        return prompts
    columns = [rows.rows[name] for name in rows.rows.column_names if name != "prompt"]
    return [f"{prompt}\n{values}" for prompt, *values in zip(prompts, *columns, strict=True)]


def spread(count: int, wanted: int, seed: int) -> list[int]:
    """Returns at most `wanted` indices below count, in order: one drawn from each of equal parts."""
    drawn = random.Random(seed)
    parts = min(count, wanted)
    edges = [part * count // parts for part in range(parts)] + [count] if parts else []
    return [drawn.randrange(low, high) for low, high in pairwise(edges)]
