"""How a recipe is run: the machines, the vLLM server, the reports and the guards."""

from typing import Annotated, Any, Literal

from pydantic import Field

from grpo_recipes.contract.host.engines import Asked
from grpo_recipes.schemas.section import Auto, NonNegativeInt, PositiveFraction, PositiveInt, Section, Word

Device = Literal["none", "cpu", "nvme"]


class FsdpSection(Section):
    """accelerate's settings for FSDP2, under accelerate's names without `fsdp_`."""

    reshard_after_forward: bool = True
    """Whether each layer frees its gathered weights after the forward pass. false keeps them for the backward
    pass: less communication, but memory for the whole model.
    """
    cpu_ram_efficient_loading: bool = True
    """Whether only the first process of each machine reads the weights. false: every process reads the whole model into
    its memory.
    """


class DistributedSection(Section):
    """How several processes share the work."""

    strategy: Literal["auto", "single", "ddp", "zero1", "zero2", "zero3", "fsdp2"] = "auto"
    """auto: single for one process, ddp for several. zero1 to zero3 are DeepSpeed's stages."""
    offload_optimizer_device: Device = "none"
    """Where DeepSpeed keeps optimizer states."""
    offload_param_device: Device = "none"
    """Where DeepSpeed keeps parameters, zero3 only."""
    deepspeed: dict[str, Any] = {}
    """Extra DeepSpeed keys, merged into the rendered file."""
    fsdp: FsdpSection | None = None
    """Settings for strategy fsdp2."""


Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9:][A-Za-z0-9.:_-]{0,252}$")]


class LaunchSection(Section):
    """Where the processes run."""

    engine: Asked = "local"
    """local starts the processes on this machine, or prints a command for each of several machines. slurm submits a
    job. docs/machines.md starts launch.sh with Kubernetes and SkyPilot.
    """
    num_nodes: PositiveInt = 1
    """Number of machines. With more than one, a vLLM server of the run takes the last one, and the others train."""
    gpus_per_node: NonNegativeInt | Auto = "auto"
    """GPUs to use on each machine. auto: all GPUs of this machine; a cluster needs a number. 0: train on the CPU."""
    num_processes: PositiveInt | Auto = "auto"
    """Total number of training processes, the same on each machine. auto: one per GPU, or one per machine without GPUs.
    """
    main_process_ip: Address | None = None
    """Name or address of the first machine, for the printed commands of the others. Clusters set it themselves.
    """
    main_process_port: Annotated[int, Field(ge=1, le=65535)] = 29500
    """Port of the first machine at which the processes of all machines meet. slurm derives it from the job.
    """
    sandbox: Literal["auto", "none"] = "auto"
    """Isolation of code that the model writes, if a tool or reward runs it in grpo-run's sandbox. auto: Landlock, or
    else bubblewrap; without either, that tool or reward does not load. none: only limits of time, memory and size, so
    the code runs with your rights; a run asks for consent to that.
    """
    environment: dict[str, str] = {}
    """Environment variables of the training processes. A number or a boolean is text, exactly as written. Variables
    that load code or carry secrets are refused; variables that are not known to be harmless need consent when a run
    starts.
    """


# Words in the header of a bash script: a shell or sbatch must read each as a single word.
SbatchWord = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,:@+/=-]{0,252}$")]
Time = Annotated[
    str, Field(pattern=r"^([0-9]{1,9}|[0-9]{1,9}:[0-5]?[0-9](:[0-5]?[0-9])?|[0-9]{1,6}-[0-9]{1,2}(:[0-5]?[0-9]){0,2})$")
]


class ContainerSection(Section):
    """The container that each machine of the job trains in, made by pyxis or Apptainer."""

    image: Word
    """Absolute path of the image: a .sqsh for pyxis, a .sif, .sqsh or folder for Apptainer. Or an image of a registry,
    in the runtime's notation: `nvcr.io#team/grpo-run:1` for pyxis, `docker://nvcr.io/team/grpo-run:1` for Apptainer.
    """
    runtime: Literal["pyxis", "apptainer"]
    """pyxis: the plugin that gives srun `--container-image`. apptainer: `apptainer exec`, or `singularity exec` where
    there is no apptainer.
    """
    mounts: list[Word] = []
    """Further folders to mount: `/source`, `/source:/target` or `/source:/target:ro`. The run folder, your home, caches
    that the environment names, and the model and data files of the recipe are mounted at their own paths.
    """
    python: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./+-]+$")] = "python"
    """Python of the image with the training stack: a name in its PATH, or an absolute path."""


class SlurmSection(Section):
    """The job's resources; only used with launch.engine: slurm."""

    partition: SbatchWord | None = None
    """Partition, or several separated by commas. null: the cluster's default."""
    account: SbatchWord | None = None
    """Account to charge. null: the cluster's default."""
    qos: SbatchWord | None = None
    """Quality of service. null: the cluster's default."""
    time: Time | NonNegativeInt | None = None
    """Time limit of each start of the job, as sbatch takes it: minutes, or in quotes "MM:SS", "HH:MM:SS", "D-HH",
    "D-HH:MM" or "D-HH:MM:SS". 0: no limit; null: the partition's.
    """
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")] | None = None
    """Type of the GPUs, by the cluster's own name: `scontrol show node` shows it under Gres. null: any."""
    gpu_option: Literal["gpus-per-node", "gres"] = "gpus-per-node"
    """The option of sbatch that requests the GPUs. gres: `--gres=gpu:8`, for clusters that accept nothing else."""
    interface: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$")] | None = None
    """Interface of the network in which the machines meet, such as ib0 on the first machine. Gloo and NCCL use the
    interfaces of the same network, unless launch.environment names others. null: the network of the address that Slurm
    has of the first machine, which may be a slow one for administration.
    """
    cpus_per_task: PositiveInt | None = None
    """CPUs on each machine. null: the cluster's default, which may be one."""
    signal_seconds: Annotated[int, Field(ge=1, le=65535)] | Auto = "auto"
    """Seconds before the time limit at which the run saves and stops. It stops when a generation ends, so this must
    exceed the longest step. auto: 600, or less if the time limit is short.
    """
    max_requeues: NonNegativeInt = 10
    """How often the job may requeue itself to resume from its last checkpoint. 0: never."""
    options: dict[str, int | Literal[True] | str] = {}
    """Further long options of sbatch without their dashes, such as `constraint: a100`; true for an option without a
    value.
    """
    container: ContainerSection | None = None
    """Train in a container. null: with the Python that runs grpo-run."""


class LoggingSection(Section):
    """What the run reports, and where. metrics.jsonl is always written."""

    report_to: list[Word] = []
    """Services, e.g. [wandb]; see docs/trackers.md. Empty: none."""
    logging_steps: PositiveInt = 1
    """Optimizer steps between lines of metrics."""
    log_completions: bool = False
    """Also report completions to the services, and write those of each step to checkpoints/completions/*.parquet, the
    only files that keep the columns of a reward's `log_extra`.
    """
    kept_completions: Annotated[int, Field(ge=0, le=64)] = 4
    """Completions per step that completions.jsonl in the run folder keeps, drawn by the seed. 0: none."""
    run_name: Word | None = None
    """Name of the run in the services. null: the recipe's name."""


class VllmServerSection(Section):
    """The vLLM server that the run starts, watches and stops with vllm_mode: server, unless an address is set."""

    gpus: PositiveInt = 1
    """GPUs that the server uses for one copy of the model; the trainer gets the machine's other GPUs. Not on the CPU.
    With several machines the server has the last one to itself.
    """
    gpu_memory_utilization: PositiveFraction = 0.9
    """Share of its GPUs' memory that the server uses."""
    port: Annotated[int, Field(ge=1, le=65535)] | Auto = "auto"
    """Port on 127.0.0.1, or, if the server has its own machine, on the address that faces the trainers. auto: a free
    one at each start.
    """
    startup_timeout: PositiveInt = 1800
    """Seconds until the server must answer; an exit is noticed immediately. Large models take minutes to load."""
    max_restarts: NonNegativeInt = 2
    """How often a run on one machine may restart server and trainer from the last checkpoint after the server died.
    With several machines the run ends with 75 and can be resumed; slurm.max_requeues limits how often Slurm does so.
    """


Action = Literal["off", "note", "warn", "stop"]


class GuardsSection(Section):
    """What the run watches while it trains. off: do not watch; note, warn: print a line; stop: end the run with exit 3.
    No guard changes what is trained. `grpo-run explain GRD001` to GRD014 explain each.
    """

    zero_variance: Action = "stop"
    """Since the start no group of completions had two different rewards, so nothing can be learned."""
    zero_variance_groups: PositiveInt = 256
    """Groups without variance since the start, over at least 10 optimizer steps, until zero_variance acts."""
    wasted_groups: Action = "note"
    """Most groups no longer have variance, so most of the compute teaches nothing."""
    wasted_groups_share: PositiveFraction = 0.9
    """Share of groups without variance, averaged over 20 optimizer steps, at which wasted_groups acts."""
    truncation: Action = "warn"
    """Nearly all completions reach max_completion_length before they end."""
    truncation_share: PositiveFraction = 0.95
    """Share of truncated completions, averaged over 10 optimizer steps, at which truncation acts."""
    not_finite: Action = "stop"
    """A loss, gradient or trained weight is NaN or infinite. Acts immediately, before the optimizer's step."""
    no_movement: Action = "stop"
    """The rewards vary, but no trained tensor has changed."""
    no_movement_steps: PositiveInt = 20
    """Optimizer steps with varying rewards and unchanged weights until no_movement acts."""
    no_progress: Action = "stop"
    """A step, a batch of an evaluation or a save takes far too long. The run folder gets the stacks of all threads."""
    no_progress_factor: PositiveInt = 10
    """Acts when a step takes this many times the median step. With stop the run ends at four times that."""
    no_progress_seconds: PositiveInt = 300
    """A step of at most this many seconds is never reported; for the first steps, a batch of an evaluation and a save,
    six times that.
    """
    far_from_sampler: Action = "warn"
    """The trained policy is far from the policy that sampled the completions: clipped or wrong ratios."""
    kl_rise: Action = "warn"
    """The KL divergence from the reference model is above 1 nat and 10 times its median so far. Only with beta > 0."""
    entropy_collapse: Action = "warn"
    """The entropy fell below 0.3 of its starting value, and the reward is no better than at the start."""
    memory_growth: Action = "note"
    """The memory of a process grows from step to step although completions do not get longer."""
    unused_tools: Action = "warn"
    """The policy calls no tool. Only with tools or an environment, like the two below."""
    unused_tools_steps: PositiveInt = 20
    """Optimizer steps in a row without a call until unused_tools acts."""
    failing_tools: Action = "warn"
    """Every call to a tool fails."""
    slow_tools: Action = "note"
    """Steps spend more time on tools than on the completions."""
    failing_judge: Action = "stop"
    """A judge gives no score to many completions, or a reward raises an exception for them; they leave their groups."""
    failing_judge_share: PositiveFraction = 0.5
    """Share of a step's completions that a judge or a reward failed on at which failing_judge acts."""


class TurnSection(Section):
    """One turn of the model: a call to a tool, or its final answer."""

    tool: Word | None = None
    """The tool to call, by the name of its function or of the environment's method."""
    arguments: dict[str, Any] = {}
    """Its arguments, by parameter name."""
    answer: str | None = None
    """The model's final text, which ends the completion."""


class PreflightSection(Section):
    """What `grpo-run preflight` plays; training ignores it."""

    turns: Annotated[list[TurnSection], Field(max_length=64)] = []
    """A scripted completion, turn by turn: calls, which the tools answer, and a final answer; the rewards score all of
    it. Empty: one call to each tool, and the right answer of a row.
    """
