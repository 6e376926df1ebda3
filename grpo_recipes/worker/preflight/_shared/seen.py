"""What the command asks of a preflight, and what the checks look at: rows, prompts, the tokenizer, given rewards."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.worker.data.chosen_rows import LeftOut
from grpo_recipes.worker.preflight._shared.reward_seen import JudgeSeen, RewardSeen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolsSeen


@dataclass(frozen=True, slots=True)
class Options:
    """How closely to look, and how long the run is.

    rows: so many are judged by the rewards and shown. time_limit: seconds for one call of a reward. memory_limit:
    bytes that a reward may hold, None for four fifths of what is free. max_steps: optimizer steps, None where epochs
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
        """Completions that a reward gets at once on all processes together."""
        return self.batch.prompts * self.batch.num_generations

    @property
    def calls_per_step(self) -> float:
        """Generations, each judged once, per optimizer step."""
        return self.batch.accumulation / (self.batch.steps_per_generation * self.num_iterations)

    def steps_per_epoch(self, rows: int) -> int:
        """Optimizer steps that so many rows give; a generation that they do not fill is dropped."""
        micro_batches = rows // self.batch.prompts * self.num_iterations * self.batch.steps_per_generation
        return -(-micro_batches // self.batch.accumulation)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a section, "dataset", "evaluation" or that of one of several held-out sets.

    total: how many a run has. rows: the datasets.Dataset of those that were rendered, all or a part spread evenly;
    prompts: theirs, where has_images with a digest for each image. places: of these rows in the data, counted from 0.
    left_out: as they were chosen, None for all.
    """

    where: str
    total: int
    rows: Any
    prompts: list[Any]
    places: Sequence[int]
    left_out: LeftOut | None = None
    has_images: bool = False

    def number(self, place: int) -> int:
        """The number of a row in the data, counted from 1."""
        return self.places[place] + 1


@dataclass(frozen=True, slots=True)
class DeclaredEnds:
    """What ends a completion. tokens: ids, the tokenizer's own and those the model declares; stops: texts."""

    tokens: tuple[int, ...]
    stop_token_ids: tuple[int, ...]
    stops: tuple[str, ...]


@dataclass(slots=True)
class Seen:
    """What was seen; None where it could not be, for which faults has the reason.

    sample: places in data.prompts that are looked at closely. texts: of the sample as the model gets them.
    lengths: tokens of the prompts in `measured`, which are places too, with what the environment adds to them: to those
    that it was not reset for the longest that it added to one. context: tokens that the model can take.
    template_problem: why a prompt could not be rendered, "" if all could.
    processor: of a model that sees, None for rows of text.
    was_known: by each added token the id that it had already. gold: how right completions were made, "" without any;
    reference: the column that they were made from; trial_texts: of each kind of completion by row of the sample.
    tools: what trying them showed, None without any; template: the text of the chat template that TRL takes with them
    in place of the tokenizer's, None for that. played_tokens: of the played completion, None where it is not known.
    tools_of: of several environments each by its name, {} without.
    held_out: of each set, as far as they can be loaded. rewards_of_sets: by the section of each set with a name, the
    rewards that judge it, called on its first row.
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


def chat_template_kwargs(seen: Seen) -> dict[str, Any]:
    """The variables that the plan gives the chat template."""
    given = seen.plan.arguments.GRPOConfig.get("chat_template_kwargs")
    return dict(given) if isinstance(given, dict) else {}


def is_conversational(prompt: Any) -> bool:
    """Whether a prompt is a list of messages, as TRL decides it."""
    return isinstance(prompt, list) and bool(prompt) and isinstance(prompt[0], dict) and "role" in prompt[0]


def content_of(message: Any) -> str:
    """The text of a message, also where it is a list of parts."""
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
    """All of a prompt in one text, to compare prompts and to look for words in them."""
    if isinstance(prompt, list):
        return "\n".join(f"{_role(message)}: {_images(message)}{content_of(message)}" for message in prompt if message)
    return "" if prompt is None else str(prompt)
