"""The plan: everything a run does, decided. `plan.json` is its JSON, and the lock of the run."""

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
)

CODE_OF = "code."
"""In `verified`: what follows is a repository of the hub whose code runs, and the value its commit."""
PLAN_FORMAT = 1


@dataclass(frozen=True, slots=True)
class PlannedSetting:
    """One value with where it comes from and why: `beta 0.0 format 1 (...)`.

    key: "GRPOConfig.beta", "LoraConfig.r", "model_init_kwargs.dtype" or a recipe key such as "dataset.path".
    recipe_key: the key a user writes for it, "" when there is none.
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

    commit: the hub's, which is loaded whatever the revision is by then; None where it was not known.
    sha256: of a folder's files, by their names in files; None where so much was not read for a plan alone.
    """

    source: Literal["hub", "folder"]
    path: str
    revision: str | None = None
    commit: str | None = None
    sha256: str | None = None
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """What is changed of the model's own tokenizer. chat_template_path: absolute jinja file.

    chat_template_sha256: of the template's text, the file's or else the model's own; None where it is not known.
    """

    chat_template_path: str | None = None
    add_tokens: tuple[str, ...] = ()
    chat_template_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Data:
    """Rows and how a row becomes a prompt.

    source: "hub" (path is an id), "file" (format json|csv|parquet) and "folder" (absolute paths), or "made" of what
    made says, {"episodes": ...}, {"reasoning_gym": ...} or {"spec": ...}. prompt: jinja2 template over the row, None
    for its column. prompt_format: of a template, messages or a string. columns: name -> jinja2 template; rewards get
    them too. filter: template; rows with False go. max_prompt_tokens: longer prompts go, or end the run, by `over`.
    max_rows: the first that stay, in their order. sha256, commit: as for a model. rows: of all data. sort_by: column,
    with a minus for the largest first. Of a source in a mixture: source_name; weight, None for its rows; from_step, the
    first that draws; in_order: never shuffled. environments: names; a row has one. images: columns; max_pixels of each.
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
    path its absolute place when the plan was made. imports: files beside it, by name with their digests; in user/ too.
    kind "package": target is "module:name" of an installed package. kind "model": target is what TRL takes as a
    reward-model id; path and sha256 of a folder, as for the policy. kind "judge": target is the address of an endpoint,
    kwargs are the other keys of the recipe's `judge`.
    name: what metrics call it (`rewards/<name>/mean`). kwargs: bound before TRL calls it. not_of: sources without it.
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
    """The held-out measure: the same rewards on `data`.

    at_start: before the first step; every_steps: 0 only at start and end. It always runs after the last step.
    greedy: most likely token instead of sampling. batch_size: prompts per generate call and process.
    sampling: how completions are drawn, the same on every release: the recipe's temperature, top_p, top_k, min_p,
    repetition_penalty and generation_kwargs, by the names of transformers' GenerationConfig.
    max_prompt_length: tokens that are kept of a longer prompt, its last ones; None keeps all.
    samples: completions of a row. pass_at: the k of each pass@k. passes: None where nothing says what passes.
    keep_best: final/ holds the checkpoint of the best evaluation. stop_after: evaluations without a better one after
    which the training ends, None for never. generated_by: who answers; batch_size and sampling are transformers' alone,
    vLLM answers as it does in the training.
    name: of the set that data, rewards and passes are of, "" where the recipe has one set without a name; others: the
    sets that decide nothing. rewards: names of those that judge it, () for all.
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
        """The evaluation of each set alone, that which decides first."""
        own = replace(self, others=())
        each = ({name: getattr(one, name) for name in HeldOutSet.__slots__} for one in self.others)
        return (own, *(replace(own, keep_best=False, stop_after=None, **one) for one in each))

    def with_data(self, changed: Callable[["Evaluation"], Data]) -> "Evaluation":
        """The evaluation with other data of each set. changed: takes the evaluation of one set alone."""
        first, *others = map(changed, self.sets)
        kept = zip(self.others, others, strict=True)
        return replace(self, data=first, others=tuple(replace(one, data=data) for one, data in kept))

    @property
    def section(self) -> str:
        """Where a recipe has the rows, when this is one of `sets`."""
        return f"evaluation.sets.{self.name}" if self.name else "evaluation"


@dataclass(frozen=True, slots=True)
class Plan:
    """A resolved recipe.

    shims: the patches for defects of released stacks that the worker applies, by file name in worker/shims/, each
    with the value that it needs, true when it needs none.
    findings: warnings, one line each. smoke: a trial of two steps for the proofs; the worker leaves no model.
    expressible: the releases of TRL that can express the recipe, where it was asked; see compare/expressible.py.
    vllm: None where transformers generates. accepted: rules whose errors the user took for warnings, with `--accept`.
    job: the section of the recipe that is the engine's own, with GPUs per machine; {} where it has none.
    made_by: sha256 of what decides ("rules": rules, facts and their resolver) and of what trains ("worker").
    recipe_file, folder: where the recipe was, and the run folder, None for a plan without one; absolute.
    verified: what the worker must find again of what it finds before the launch, by the keys of run.json's "verified".
    accept_drift: what of that differs is said and does not stop the run. kept_completions: of each step.
    memory: what each GPU is estimated to need; None in plans of releases that did not estimate it.
    ancestor: the run that it starts from, None where it starts from a model alone. extends: the finished run that it
    goes on with, from its last checkpoint; None for one that begins at step 0.
    environment: variables of its processes. environment_class, environment_classes: `environment`, `environments`
    by name. scripted_turns: played by preflight alone. sandbox: of code that the model writes, or "none". fsdp: the
    recipe's settings for FSDP2, None without any. resample_groups: rounds in which groups without variance are
    redrawn. sources: of a mixture, whose first is `data`.
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

    @property
    def trained_data(self) -> dict[str, Data]:
        """The data of the training by the section of the recipe: `dataset`, or `datasets.NAME` for each source."""
        return {f"datasets.{one.source_name}": one for one in self.sources} or {"dataset": self.data}

    @property
    def all_environments(self) -> dict[str, EnvironmentClass]:
        """By their keys in a recipe: `environment`, or `environments.NAME` for each of several."""
        one = {} if self.environment_class is None else {"environment": self.environment_class}
        return one or {f"environments.{name}": each for name, each in self.environment_classes.items()}

    @property
    def trains_a_copy(self) -> bool:
        """Whether the run trains a model that is written into its folder before."""
        return bool(self.tokenizer.add_tokens) or (self.ancestor is not None and self.ancestor.use == "merge")

    @property
    def samples_a_copy(self) -> bool:
        """Whether vLLM loads the base of a quantized policy dequantized, from the run's folder."""
        return self.arguments.BitsAndBytesConfig is not None and "adapter_sync" in self.shims

    @property
    def writes_models(self) -> bool:
        """Whether trainer or vLLM load a model that is written into the run's folder before."""
        return self.trains_a_copy or self.samples_a_copy


def to_json(plan: Plan) -> str:
    """The text of plan.json: keys in the order of the classes, two spaces, a final newline."""
    return json.dumps(dataclasses.asdict(plan), indent=2, ensure_ascii=False) + "\n"
