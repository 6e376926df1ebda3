"""The sections of a plan: ancestor, guards, memory, user code and vLLM.

User code is what is not grpo-run's own: tools that the model calls, an environment that answers it, a rollout, the
scripted turns of a preflight, and the packages that rewards come from. Its files are pinned like those of a Reward of
kind "python": target is "file.py:name", the file is in worker/user/ of the run folder, sha256 is its digest, path its
absolute path when the plan was made. imports: files next to it that it imports, by name with their digests; they are
in worker/user/ too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grpo_recipes.contract.files.regular_file import files_sha256

_WEIGHTS = (".safetensors", ".bin", ".pt")
_OF_THE_TRAINING = ("optimizer", "scheduler", "rng_state", "training_args", "reference_")


@dataclass(frozen=True, slots=True)
class Forebear:
    """An earlier run in the lineage. use: how the next run used it; weights_sha256: as in Ancestor.

    None is unknown.
    """

    use: str
    name: str
    plan_sha256: str | None
    weights_sha256: str | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Ancestor:
    """The origin of the weights that the run starts from.

    use: "weights" of a whole model; "merge" of an adapter into its model, before the run; "continue" of an adapter;
    "extend" of a whole run, whose checkpoint is at path, with the digests of its files.
    named: the absolute folder or hub id that the recipe names; run: the run folder, None for another program's adapter.
    plan_sha256: of the run's plan.json. path: of the weights, source as for a model; commit of the hub.
    files: the digest of each file of a folder, by name, as for a model; weights_sha256: of those that hold weights,
    None if the folder was not read. quantization, dtype: of its training, for a merge.
    before: the earlier runs, nearest first.
    """

    use: Literal["weights", "merge", "continue", "extend"]
    name: str
    named: str
    run: str | None
    plan_sha256: str | None
    step: int | None
    source: Literal["hub", "folder"]
    path: str
    commit: str | None = None
    weights_sha256: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    quantization: dict[str, object] | None = None
    dtype: str | None = None
    before: tuple[Forebear, ...] = ()


def lineage(ancestor: Ancestor | None, extends: Ancestor | None = None) -> tuple[Forebear, ...]:
    """The runs that a run descends from, nearest first. extends: the run that it makes longer, which counts as one."""
    ancestor = extends or ancestor
    if ancestor is None:
        return ()
    own = Forebear(ancestor.use, ancestor.name, ancestor.plan_sha256, ancestor.weights_sha256, ancestor.step)
    return (own, *ancestor.before)


def weights_sha256(files: Mapping[str, str]) -> str | None:
    """One digest over the files that hold weights, ignoring all others; None if there are none."""
    held = [(name, files[name]) for name in sorted(files) if _holds_weights(name)]
    return files_sha256(held) if held else None


def _holds_weights(name: str) -> bool:
    return name.endswith(_WEIGHTS) and not name.rpartition("/")[2].startswith(_OF_THE_TRAINING)


Action = Literal["off", "note", "warn", "stop"]


@dataclass(frozen=True, slots=True)
class Guards:
    """The thresholds and actions of the guards: the recipe's `guards` section, key by key.

    Shares are fractions; *_groups are groups of completions, *_steps optimizer steps.
    """

    zero_variance: Action
    zero_variance_groups: int
    wasted_groups: Action
    wasted_groups_share: float
    truncation: Action
    truncation_share: float
    not_finite: Action
    no_movement: Action
    no_movement_steps: int
    no_progress: Action
    no_progress_factor: int
    no_progress_seconds: int
    far_from_sampler: Action
    kl_rise: Action
    entropy_collapse: Action
    memory_growth: Action
    unused_tools: Action = "warn"
    unused_tools_steps: int = 20
    failing_tools: Action = "warn"
    slow_tools: Action = "note"
    failing_judge: Action = "stop"
    failing_judge_share: float = 0.5


Phase = Literal["load", "generate", "score", "update", "sync", "save", "evaluation", "warm_start"]
"""The phases of a run: loading the model, generating, log-probabilities before the update, forward pass to optimizer
step, sending weights to vLLM, saving a checkpoint, answering held-out rows,
supervised steps before the first generation.
"""


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """The estimated peak memory of each GPU by phase, in bytes.

    phases: bytes by term and phase; {} if unknown, and `unknown` says why.
    gpu_bytes: of the smallest GPU; None on the CPU or if unknown, and then the verdict is "unknown" too.
    assumed: what the estimate assumes about values that the recipe leaves open.
    """

    verdict: Literal["fits", "tight", "does not fit", "unknown"]
    phases: dict[str, dict[str, int]] = field(default_factory=dict)
    gpu_bytes: int | None = None
    assumed: tuple[str, ...] = ()
    unknown: str = ""

    def peak(self) -> tuple[str, int] | None:
        """The phase that needs most with its bytes, None if unknown."""
        totals = {phase: sum(terms.values()) for phase, terms in self.phases.items()}
        return max(totals.items(), key=lambda total: total[1], default=None)


SANDBOX_VARIABLE = "GRPO_RUN_SANDBOX"
"""Passes `launch.sandbox: none` to the processes of a run; a recipe cannot set it, and launch.sh clears it first."""


@dataclass(frozen=True, slots=True)
class Package:
    """The installed package of a reward. name, release: None if the plan's stack does not list it.

    is_factory: whether the target is called once with the kwargs and returns the reward; None if its source was not
    available, and the worker inspects its signature.
    """

    name: str | None
    release: str | None
    is_factory: bool | None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model can call under its own name.

    is_async: defined with `async def`; None if its source does not say. timeout: seconds that a call may take.
    """

    name: str
    target: str
    path: str
    sha256: str
    imports: dict[str, str] = field(default_factory=dict)
    is_async: bool | None = False
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class EnvironmentClass:
    """A class whose methods the model can call, with one object per completion. config: keyword arguments of the class.

    timeout: seconds that the constructor, a reset or a call may take. package: in plans of older releases, of a class
    that TRL brought.
    """

    name: str
    target: str
    path: str
    sha256: str | None
    imports: dict[str, str] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    timeout: float = 10.0
    package: Package | None = None


@dataclass(frozen=True, slots=True)
class Rollout:
    """The function that makes the completions instead of TRL."""

    name: str
    target: str
    path: str
    sha256: str
    imports: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """A turn that a preflight plays instead of the model: a call to a tool, or an answer if tool is None."""

    tool: str | None = None
    arguments: dict[str, object] = field(default_factory=dict)
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class VllmServer:
    """The vLLM server that the run starts and stops.

    command: the arguments of the run's Python; {model}, {host} and {port} are filled in at the start, when the model's
    revision is added. {host} is the address that it listens on: 127.0.0.1 next to its trainer.
    gpus: its GPUs, as indexes into the run's visible ones; none on a CPU.
    port: None takes a free one at each start. startup_timeout: seconds until it must answer.
    max_restarts: how often server and trainer are restarted after the server died.
    own_node: it has a separate machine, after those that train; gpus are indexes on that machine.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    gpus: tuple[int, ...]
    port: int | None
    startup_timeout: int
    max_restarts: int
    own_node: bool = False


@dataclass(frozen=True, slots=True)
class Vllm:
    """How vLLM generates.

    dtype: of its weights and its computation. engine: arguments of vLLM's engine without a field in TRL: keywords of
    LLM in colocate mode, flags of the server otherwise.
    server: None in colocate mode, and for a server that grpo-run does not start.
    """

    mode: Literal["colocate", "server"]
    dtype: str
    engine: dict[str, object] = field(default_factory=dict)
    server: VllmServer | None = None


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Supervised steps before the first generation: the recipe's `warm_start` section, key by key.

    answer: jinja2 template over a row.
    """

    steps: int
    answer: str
    learning_rate: float
    lr_scheduler_type: Literal["linear", "cosine", "constant"]
    warmup_steps: int


@dataclass(frozen=True, slots=True)
class Expect:
    """Values that the live trainer must have before the first step; otherwise the run stops with exit 3.

    trainable: "full" or "lora"; trainable_parameters: their number if the model's sizes are known, else None.
    deepspeed_stage: 0 without DeepSpeed. arguments: live GRPOConfig attributes that must equal these values.
    weights_dtype: of the model's own weights, None if any is accepted (dtype: auto).
    adapter_dtype: of the LoRA tensors when training starts, None without an adapter or if unknown.
    stop, stop_token_ids: end a completion, as the model's own end tokens do.
    """

    world_size: int
    deepspeed_stage: int
    trainable: Literal["full", "lora"]
    trainable_parameters: int | None
    arguments: dict[str, object]
    weights_dtype: str | None = "float32"
    adapter_dtype: str | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Passes:
    """A completion passes if the reward of this name is at least this high, before its weight."""

    reward: str
    at_least: float
