"""The run is a managed job of SkyPilot: task.yaml in the run folder, which a person launches with sky.

SkyPilot finds cloud machines, and new ones after a preemption. The run folder is uploaded once to a bucket or a volume,
where every start finds its checkpoints.
"""

import shlex
from dataclasses import dataclass, field, replace

from grpo_recipes.contract.exits import EXIT_INTERRUPTED, Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.read_plan import NotAPlan, section_of
from grpo_recipes.engines.by_hand import EngineByHand, job_name, local_files, machine_script, own_folder, to_yaml
from grpo_recipes.facts.cluster_words import GPUS, skypilot_faults
from grpo_recipes.memory.estimate import fitting
from grpo_recipes.render.job import Job, job_of

TASK = "task.yaml"
_DISK = "/runs"


@dataclass(frozen=True, slots=True)
class SkypilotTask:
    """The recipe's skypilot section, which describes each key. gpus_per_node: of each machine, 0 requests none."""

    image: str
    python: str
    use_spot: bool
    gpus_per_node: int
    infra: str | None = None
    accelerators: tuple[str, ...] = ()
    storage: str | None = None
    volume: str | None = None
    secrets: tuple[str, ...] = ()
    resources: dict[str, object] = field(default_factory=dict)


def skypilot_task(plan: Plan) -> SkypilotTask:
    """The plan's SkyPilot section. Raises Refusal for a value that no recipe may have."""
    for key, expected in skypilot_faults(plan.job):
        raise Refusal.of(f"skypilot.{key} must be {expected}", because="it is copied into a command or a task")
    try:
        return section_of(SkypilotTask, plan.job, "job")
    except NotAPlan as problem:
        raise Refusal.of("the plan's SkyPilot section cannot come from a recipe", because=str(problem)) from None


def task(plan: Plan) -> str:
    """The text of task.yaml."""
    asked, job, name = skypilot_task(plan), job_of(plan), job_name(plan)
    resources = {
        **asked.resources,
        "infra": asked.infra,
        "accelerators": dict.fromkeys(_accelerators(plan, asked), asked.gpus_per_node) if asked.gpus_per_node else {},
        "use_spot": asked.use_spot,
        "image_id": f"docker:{asked.image}",
        "job_recovery": {"recover_on_exit_codes": [EXIT_INTERRUPTED]},
    }
    bucket = {"source": asked.storage, "mode": "MOUNT_CACHED"}
    content: dict[str, object] = {
        "name": name,
        "num_nodes": job.all_nodes,
        "workdir": own_folder(plan),
        "resources": {key: value for key, value in resources.items() if value not in (None, {}, False)},
        "file_mounts": ({} if asked.storage is None else {_DISK: bucket}) | {file: file for file in local_files(plan)},
        "volumes": {} if asked.volume is None else {_DISK: asked.volume},
        "envs": {"PYTHON": asked.python},
        "secrets": dict.fromkeys(asked.secrets),
        "run": _script(f"{_DISK}/{name}", job),
    }
    comment = [
        f'Trains "{job.name}" with SkyPilot. Written by grpo-run from plan.json.',
        f"The run folder is uploaded to {_DISK}/{name} when the job starts for the first time.",
    ]
    return to_yaml(comment, {key: value for key, value in content.items() if value != {}})


def _accelerators(plan: Plan, task: SkypilotTask) -> tuple[str, ...]:
    """The GPUs to choose from: the recipe's, or those that the estimate fits. Raises Refusal if there are none."""
    if task.accelerators:
        return task.accelerators
    peak = None if plan.memory is None else plan.memory.peak()
    if peak is None:
        raise Refusal.of(
            "skypilot.accelerators is empty, and grpo-run does not know which GPUs are enough",
            because=(plan.memory and plan.memory.unknown) or "the plan has no estimate",
            fix="skypilot.accelerators: [H100], or other names of SkyPilot",
        )
    phase, size = peak
    found = fitting(GPUS, size)
    if not found:
        raise Refusal.of(
            f"skypilot.accelerators is empty, and the run fits on none of {', '.join(GPUS)}",
            because=f"it needs {size / 2**30:.0f} GiB for each GPU to {phase}",
            fix="grpo-run fit shows what takes the memory; launch.gpus_per_node and distributed.strategy divide it",
        )
    return found


def _script(folder: str, job: Job) -> str:
    copy = f"{folder}.new"
    return "\n".join(
        [
            "trap 'exit 75' TERM",
            f'if [ "$SKYPILOT_NODE_RANK" = 0 ] && [ ! -e {folder}/plan.json ]; then',
            f"  rm -rf {copy} && cp -rT . {copy} && mv {copy} {folder} || exit 1",
            "fi",
            f"until [ -e {folder}/plan.json ]; do sleep 1; done",
            f'if [ "$(<plan.json)" != "$(<{folder}/plan.json)" ]; then',
            *(f"  echo {shlex.quote(line)} >&2" for line in _another_plan(folder)),
            "  exit 2",
            "fi",
            f"cd {folder} || exit 2",
            "address=${SKYPILOT_NODE_IPS%%$'\\n'*}",
            *machine_script(job, "$SKYPILOT_NODE_RANK", "$address"),
            "",
        ]
    )


def _another_plan(folder: str) -> list[str]:
    """A machine's error if the disk has a different run, or an earlier plan of this one."""
    return [
        f"error: {folder} was planned from a different recipe or options than the launched run folder",
        "  fix: a different --out for a different run",
        f"  fix: remove {folder} from the bucket or volume to train from the start",
        f"  fix: copy the run folder over {folder} to resume with the new plan; its checkpoints stay",
    ]


class SkypilotEngine(EngineByHand):
    """Writes the task and prints how to launch it; SkyPilot shows the job's progress."""

    def files(self, plan: Plan) -> dict[str, str]:
        """The task. Raises Refusal for an unsupported request."""
        return {TASK: task(plan)}

    def commands(self, plan: Plan, folder: str, *, resume: bool) -> list[str]:
        """The command for the job; when restarted, it finds its checkpoints."""
        secrets = "".join(f" --secret {shlex.quote(name)}" for name in skypilot_task(plan).secrets)
        return [f"sky jobs launch{secrets} {shlex.quote(f'{folder}/{TASK}')}"]

    def advice(self, plan: Plan, folder: str) -> list[str]:
        """How to follow and stop the job."""
        name = job_name(replace(plan, folder=folder))
        return [f"to follow it: sky jobs logs -n {name}", f"to stop it: sky jobs cancel -n {name}"]


ENGINE = SkypilotEngine()
