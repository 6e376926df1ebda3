"""The sections of a plan: ancestor, guards, memory, user code and vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from grpo_recipes.contract.files.regular_file import files_sha256

# Where the weights come from that a run starts from, and what they came from themselves.


_WEIGHTS = (".safetensors", ".bin", ".pt")
_OF_THE_TRAINING = ("optimizer", "scheduler", "rng_state", "training_args", "reference_")


@dataclass(frozen=True, slots=True)
class Forebear:
    """A run further back. use: what the run after it made of it; weights_sha256: as of an ancestor.

    What nobody knows is None.
    """

    use: str
    name: str
    plan_sha256: str | None
    weights_sha256: str | None
    step: int | None


@dataclass(frozen=True, slots=True)
class Ancestor:
    """What the weights come from that are trained on.

    use: "weights" of a whole model; "merge" of an adapter into its model, before the run; "continue" of an adapter;
    "extend" of a whole run, whose checkpoint lies at path, with the digests of its files.
    named: the absolute folder or hub id that the recipe names; run: the run folder, None for an adapter that another
    program left. plan_sha256: of the run's plan.json. path: of the weights, source as for a model; commit of the hub.
    files: the digest of each file of a folder, by its name, as for a model; weights_sha256: over those that hold
    weights, None where the folder was not read. quantization, dtype: under which it was trained, for a merge.
    before: what the run came from itself, the nearest first.
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
    """What a run came from, the nearest first. extends: the run that it is the longer form of, which counts."""
    ancestor = extends or ancestor
    if ancestor is None:
        return ()
    own = Forebear(ancestor.use, ancestor.name, ancestor.plan_sha256, ancestor.weights_sha256, ancestor.step)
    return (own, *ancestor.before)


def weights_sha256(files: Mapping[str, str]) -> str | None:
    """One digest over the files that hold weights, whatever lies beside them; None where none does."""
    held = [(name, files[name]) for name in sorted(files) if _holds_weights(name)]
    return files_sha256(held) if held else None


def _holds_weights(name: str) -> bool:
    return name.endswith(_WEIGHTS) and not name.rpartition("/")[2].startswith(_OF_THE_TRAINING)


Action = Literal["off", "note", "warn", "stop"]


@dataclass(frozen=True, slots=True)
class Guards:
    """What is watched while the run trains, and from where on it acts: the recipe's `guards` section, key by key.

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


Phase = Literal["load", "generate", "score", "update", "sync", "save", "evaluation"]
"""The parts of a run: loading the model, making completions, log-probabilities before the update, forward to optimizer
step, handing weights to vLLM, a checkpoint, answering held-out rows."""


@dataclass(frozen=True, slots=True)
class PlannedMemory:
    """What each GPU holds at the worst moment of each phase, an estimate in bytes.

    phases: bytes by the name of a term, by the phase; {} where nothing is known, and unknown says why.
    gpu_bytes: of the smallest GPU; None on the CPU and where it is not known, where the verdict is "unknown" too.
    assumed: what the recipe leaves open and the estimate takes for given.
    """

    verdict: Literal["fits", "tight", "does not fit", "unknown"]
    phases: dict[str, dict[str, int]] = field(default_factory=dict)
    gpu_bytes: int | None = None
    assumed: tuple[str, ...] = ()
    unknown: str = ""

    def peak(self) -> tuple[str, int] | None:
        """The phase that needs most with its bytes, None where nothing is known."""
        totals = {phase: sum(terms.values()) for phase, terms in self.phases.items()}
        return max(totals.items(), key=lambda total: total[1], default=None)


# Code of a plan that is not grpo-run's own.
#
# What completions are made with beside the model: tools that it calls, an environment that answers it, a rollout; what
# a preflight says in its place; and the packages that rewards come from.
#
# Their files are pinned as those of a Reward of kind "python" are: target is "file.py:name", the file is in
# worker/user/ of the run folder, sha256 is its digest, path its absolute place when the plan was made. imports: files
# beside it that it imports, by name with their digests; they are in worker/user/ too.


SANDBOX_VARIABLE = "GRPO_RUN_SANDBOX"
"""Hands `launch.sandbox: none` to the processes of a run; a recipe cannot set it, and launch.sh clears it before."""


@dataclass(frozen=True, slots=True)
class Package:
    """The installed package of a reward or an environment. name, release: None where the stack of the plan did not say.

    is_factory: whether what the target names is called once, with the kwargs, and gives the reward; None where its
    source was not there to say, and the worker asks its signature.
    """

    name: str | None
    release: str | None
    is_factory: bool | None


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the model can call, by its own name.

    is_async: defined with `async def`; None where its source does not say. timeout: seconds that a call may take.
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
    """The class whose methods the model can call, one object for each completion. config: keywords it is made with.

    timeout: seconds that making it, a reset or a call may take. package: of one of TRL's own, which has no file.
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
    """What a preflight says in the place of the model: a call of a tool, or where tool is None an answer."""

    tool: str | None = None
    arguments: dict[str, object] = field(default_factory=dict)
    answer: str | None = None


# How vLLM generates, as a plan says it.


@dataclass(frozen=True, slots=True)
class VllmServer:
    """The vLLM server that the run starts and stops.

    command: what follows the run's Python; {model}, {host} and {port} stand for what is known at the start, and the
    model's revision is added then. {host} is the address that it listens on: 127.0.0.1 beside its trainer.
    gpus: its GPUs, as places in the list of those that the run may see; none on a CPU.
    port: None takes a free one at each start. startup_timeout: seconds until it must answer.
    max_restarts: how often server and trainer are started again after the server died.
    own_node: it has a machine of its own, the one after those that train; gpus are places on that one.
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

    dtype: of its weights and its computation. engine: arguments of vLLM's engine that TRL has no field for: keywords
    of LLM in colocate mode, flags of the server otherwise.
    server: None in colocate mode, and for a server that somebody else runs.
    """

    mode: Literal["colocate", "server"]
    dtype: str
    engine: dict[str, object] = field(default_factory=dict)
    server: VllmServer | None = None


@dataclass(frozen=True, slots=True)
class Expect:
    """What the worker finds in the live trainer before the first step, or stops with exit 3.

    trainable: "full" or "lora"; trainable_parameters: their count when the model's sizes are known, else None.
    deepspeed_stage: 0 without DeepSpeed. arguments: live GRPOConfig attributes that must equal these values.
    weights_dtype: of the model's own weights, None where any is right (dtype: auto).
    adapter_dtype: of the LoRA tensors when training starts, None without an adapter or when it is not known.
    stop, stop_token_ids: what ends a completion beside the model's own end tokens.
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
    """A completion passes where the reward of this name is so high, before its weight."""

    reward: str
    at_least: float
