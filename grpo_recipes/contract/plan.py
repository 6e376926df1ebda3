"""The plan: every decision about a run. `plan.json` is its JSON, and the lock of the run."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from grpo_recipes.contract.plan_machine import Arguments, Batch, World
from grpo_recipes.contract.plan_sections import (
    Ancestor,
    EnvironmentClass,
    Expect,
    Guards,
    Package,
    Passes,
    PlannedMemory,
    Rollout,
    ScriptedTurn,
    Tool,
    Vllm,
    WarmStart,
)

CODE_OF = "code."
"""In `verified`: prefix of a hub repository whose code runs; the value is its commit."""
PLAN_FORMAT = 1


@dataclass(frozen=True, slots=True)
class PlannedSetting:
    """One value, its origin and the reason: `beta 0.0 format 1 (...)`.

    key: "GRPOConfig.beta", "LoraConfig.r", "model_init_kwargs.dtype" or a recipe key such as "dataset.path".
    recipe_key: the key a user writes for it, "" without one.
    kind: experiment, machine or bookkeeping.
    """

    key: str
    value: object
    origin: str
    why: str = ""
    recipe_key: str = ""
    kind: Literal["experiment", "machine", "bookkeeping"] = "bookkeeping"


@dataclass(frozen=True, slots=True)
class Model:
    """The policy. path: absolute folder, or hub id; revision only for the hub.

    commit: of the hub, loaded even if the revision has moved since; None if unknown.
    sha256: of a folder's files, listed in `files`; None if the folder was too large to read for a plan.
    """

    source: Literal["hub", "folder"]
    path: str
    revision: str | None = None
    commit: str | None = None
    sha256: str | None = None
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Changes to the model's own tokenizer. chat_template_path: absolute jinja file.

    chat_template_sha256: of the template's text, from the file or else the model; None if unknown.
    """

    chat_template_path: str | None = None
    add_tokens: tuple[str, ...] = ()
    chat_template_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """The rows, and how a row becomes a prompt.

    source: "hub" (path is an id), "file" (format json|csv|parquet) and "folder" (absolute paths), or "made" as `made`
    says, {"episodes": ...} or {"reasoning_gym": ...}. prompt: jinja2 template over the row, None for its column.
    prompt_format: of a template, messages or a string. columns: name -> jinja2 template; rewards get them too. filter:
    template; rows with False are dropped. max_prompt_tokens: longer prompts are dropped, or end the run, by `over`.
    max_rows: the first to keep. sha256, commit: as for a model. rows: of all data. sort_by: column, a minus sorts the
    largest first. Of a source in a mixture: source_name; weight, None for its rows; from_step, the first step that
    draws; in_order: never shuffled. environments: names, one per row. images: columns; max_pixels of each.
    """

    source: Literal["hub", "file", "folder", "made"]
    path: str
    format: str | None
    name: str | None
    split: str
    revision: str | None
    prompt: str | None
    prompt_format: Literal["conversational", "standard"]
    system_prompt: str | None
    columns: dict[str, str]
    max_rows: int | None = None
    sha256: str | None = None
    rows: int | None = None
    commit: str | None = None
    made: dict[str, object] | None = None
    filter: str | None = None
    max_prompt_tokens: int | None = None
    over: Literal["drop", "error"] = "drop"
    shuffle_seed: int | None = None
    sort_by: str | None = None
    source_name: str | None = None
    weight: float | None = None
    from_step: int = 1
    in_order: bool = False
    environments: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    max_pixels: int | None = None


@dataclass(frozen=True, slots=True)
class Reward:
    """One reward function.

    kind "shipped": target is a file of grpo_recipes/rewards/ and its function of the same name.
    kind "python": target is "file.py:function", the file is in worker/user/ of the run folder, sha256 is its digest,
    path its absolute path when the plan was made. imports: files next to it, by name with their digests; in user/ too.
    kind "package": target is "module:name" of an installed package. kind "model": target is what TRL takes as a
    reward-model id; path and sha256 of a folder, as for the policy. kind "judge": target is the address of an endpoint,
    kwargs are the other keys of the recipe's `judge`.
    name: what metrics call it (`rewards/<name>/mean`). kwargs: bound before TRL calls it. not_of: sources not judged.
    """

    kind: Literal["shipped", "python", "package", "model", "judge"]
    name: str
    target: str
    weight: float
    kwargs: dict[str, object] = field(default_factory=dict)
    path: str | None = None
    sha256: str | None = None
    imports: dict[str, str] = field(default_factory=dict)
    package: Package | None = None
    not_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldOutSet:
    """One of several sets of held-out rows. rewards: names of those that judge it, () for all."""

    name: str
    data: Data
    rewards: tuple[str, ...] = ()
    passes: Passes | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The evaluation on held-out rows: the same rewards on `data`.

    at_start: before the first step; every_steps: 0 only at start and end. It always runs after the last step.
    greedy: most likely token instead of sampling. batch_size: prompts per generate call and process.
    sampling: how completions are drawn, the same on every release: the recipe's temperature, top_p, top_k, min_p,
    repetition_penalty and generation_kwargs, by the names of transformers' GenerationConfig.
    max_prompt_length: number of tokens to keep of a longer prompt, the last ones; None keeps all.
    samples: completions of a row. pass_at: the k of each pass@k. passes: None if nothing defines what passes.
    keep_best: final/ holds the checkpoint of the best evaluation. stop_after: evaluations without a better one after
    which the training ends, None for never. generated_by: what answers; batch_size and sampling are only for
    transformers, vLLM answers as in training.
    name: of the set that data, rewards and passes are of, "" where the recipe has one set without a name; others: the
    sets that do not decide. rewards: names of those that judge it, () for all.
    """

    data: Data
    at_start: bool
    every_steps: int
    greedy: bool
    batch_size: int
    sampling: dict[str, object]
    max_prompt_length: int | None = None
    samples: int = 1
    pass_at: tuple[int, ...] = ()
    passes: Passes | None = None
    keep_best: bool = False
    stop_after: int | None = None
    generated_by: Literal["transformers", "vllm"] = "transformers"
    name: str = ""
    rewards: tuple[str, ...] = ()
    others: tuple[HeldOutSet, ...] = ()

    @property
    def sets(self) -> tuple["Evaluation", ...]:
        """The evaluation of each set alone, the deciding one first."""
        own = replace(self, others=())
        each = ({name: getattr(other, name) for name in HeldOutSet.__slots__} for other in self.others)
        return (own, *(replace(own, keep_best=False, stop_after=None, **changes) for changes in each))

    def with_data(self, changed: Callable[["Evaluation"], Data]) -> "Evaluation":
        """The evaluation with different data for each set. changed: takes the evaluation of a single set."""
        first, *others = map(changed, self.sets)
        pairs = zip(self.others, others, strict=True)
        return replace(self, data=first, others=tuple(replace(other, data=data) for other, data in pairs))

    @property
    def section(self) -> str:
        """The recipe's section for these rows, if this is one of `sets`."""
        return f"evaluation.sets.{self.name}" if self.name else "evaluation"


@dataclass(frozen=True, slots=True)
class Plan:
    """A resolved recipe.

    shims: the patches for defects of released stacks that the worker applies, by file name in worker/shims/, each with
    the value that it needs, true when it needs none. findings: warnings, one line each. smoke: a trial of two steps for
    the proofs, which leaves no model. expressible: the releases of TRL that can express the recipe, if asked for; see
    compare/expressible.py. vllm: None if transformers generates. accepted: rules whose errors `--accept` turned into
    warnings. job: the recipe's section for the engine, with GPUs per machine; {} if it has none. made_by: sha256 of the
    code that decides ("rules": rules, facts, resolver) and that trains ("worker"). recipe_file, folder: absolute paths
    of the recipe and of the run folder, None for a plan without one. verified: facts from before the launch that the
    worker must find again, by the keys of run.json's "verified". accept_drift: differences are reported and do not stop
    the run. kept_completions: of each step. memory: the estimated need of each GPU; None in plans of older releases.
    ancestor: the run that it starts from, None if it starts from a model. extends: the finished run that it continues
    from its last checkpoint; None for a run that begins at step 0. environment: variables of its processes.
    environment_class, environment_classes: `environment`, `environments` by name. scripted_turns: played by preflight
    alone. sandbox: of code that the model writes, or "none". fsdp: the recipe's settings for FSDP2, None without any.
    resample_groups: rounds in which groups without variance are redrawn. sources: of a mixture, whose first is `data`.
    warm_start: None without one.
    """

    plan: int
    grpo_recipes: str
    name: str
    recipe: dict[str, object]
    stack: dict[str, object]
    world: World
    batch: Batch
    settings: tuple[PlannedSetting, ...]
    arguments: Arguments
    model: Model
    tokenizer: Tokenizer
    data: Data
    rewards: tuple[Reward, ...]
    evaluation: Evaluation | None
    guards: Guards
    shims: dict[str, object]
    expect: Expect
    deepspeed: dict[str, object] | None
    environment: dict[str, str]
    findings: tuple[str, ...] = ()
    smoke: bool = False
    expressible: dict[str, object] | None = None
    vllm: Vllm | None = None
    accepted: tuple[str, ...] = ()
    made_by: dict[str, str] = field(default_factory=dict)
    recipe_file: str | None = None
    folder: str | None = None
    verified: dict[str, object] = field(default_factory=dict)
    accept_drift: bool = False
    job: dict[str, object] = field(default_factory=dict)
    memory: PlannedMemory | None = None
    ancestor: Ancestor | None = None
    extends: Ancestor | None = None
    kept_completions: int = 0
    tools: tuple[Tool, ...] = ()
    environment_class: EnvironmentClass | None = None
    environment_classes: dict[str, EnvironmentClass] = field(default_factory=dict)
    rollout: Rollout | None = None
    scripted_turns: tuple[ScriptedTurn, ...] = ()
    sandbox: Literal["auto", "none"] = "auto"
    fsdp: dict[str, object] | None = None
    resample_groups: int = 0
    sources: tuple[Data, ...] = ()
    warm_start: WarmStart | None = None

    @property
    def training_data(self) -> dict[str, Data]:
        """The training data by the recipe's section: `dataset`, or `datasets.NAME` for each source."""
        return {f"datasets.{source.source_name}": source for source in self.sources} or {"dataset": self.data}

    @property
    def all_environments(self) -> dict[str, EnvironmentClass]:
        """The environments by their keys in a recipe: `environment`, or `environments.NAME` for each of several."""
        single = {} if self.environment_class is None else {"environment": self.environment_class}
        return single or {f"environments.{name}": each for name, each in self.environment_classes.items()}

    @property
    def trains_a_copy(self) -> bool:
        """Whether the run trains a copy of the model that is first written into its folder."""
        return bool(self.tokenizer.add_tokens) or (self.ancestor is not None and self.ancestor.use == "merge")

    @property
    def samples_a_copy(self) -> bool:
        """Whether vLLM loads a dequantized copy of a quantized policy's base from the run folder."""
        return self.arguments.BitsAndBytesConfig is not None and "adapter_sync" in self.shims

    @property
    def writes_models(self) -> bool:
        """Whether the trainer or vLLM loads a model that is first written into the run folder."""
        return self.trains_a_copy or self.samples_a_copy


def to_json(plan: Plan) -> str:
    """The text of plan.json: keys in the order of the classes, two spaces, a final newline."""
    return json.dumps(dataclasses.asdict(plan), indent=2, ensure_ascii=False) + "\n"
