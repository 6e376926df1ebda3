"""A task of SkyPilot has an image, and a disk that outlives its machines.

SkyPilot replaces a preempted machine with a new, empty one. The run resumes only if its folder is in a bucket
(`skypilot.storage`) or on a volume (`skypilot.volume`). A bucket is mounted with a cache on each machine, so machines
do not see each other's writes; several machines need a volume.

The printed command contains the names of secrets, and the file would show their values, so the rule accepts only names
of environment variables.

Without `skypilot.accelerators`, the task requests GPUs on which the run fits according to its estimate, so the estimate
must be available.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.cluster_words import GPUS, skypilot_faults
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import ENGINE, GIB, NODES, machines

ID = "WLD011"
SECTION = "skypilot"
# Keys of SkyPilot's `resources` that grpo-run writes, and from what.
OWNED = {
    "accelerators": "skypilot.accelerators and launch.gpus_per_node",
    "image_id": "skypilot.image",
    "infra": "skypilot.infra",
    "job_recovery": "what a run needs to resume",
    "use_spot": "skypilot.use_spot",
}


def check(context: Context) -> Iterator[Finding]:
    if context.value(ENGINE) != SECTION:
        return  # WLD005 reports that the section has no effect
    for name, expected in skypilot_faults(context.settings.under(SECTION)):
        if (SECTION, name) not in context.refused:
            message, because = f"SkyPilot does not accept skypilot.{name}", f"it has to be {expected}"
            yield context.finding(message, f"{SECTION}.{name}", because, fix=f"{name}: {expected}")
    storage, volume = (context.value(f"{SECTION}.{name}") for name in ("storage", "volume"))
    if context.value(f"{SECTION}.image") is None:
        because = "the machines need an image with the training stack"
        fix = "skypilot.image: registry.example.com/team/grpo-run:1"
        yield context.finding("skypilot.image is missing", ENGINE, because, fix=fix)
    if storage is None and volume is None:
        because = "the run folder has to outlive the machines, or training starts over after a preemption"
        fix = "skypilot.storage: s3://my-runs, or skypilot.volume with the name of a SkyPilot volume"
        yield context.finding(
            "the run folder has no disk: skypilot sets neither storage nor volume", ENGINE, because, fix=fix
        )
    elif storage is not None and volume is not None:
        yield context.wrong(
            "skypilot sets both storage and volume", f"{SECTION}.storage", f"skypilot.volume is {volume}"
        )
    elif storage is not None and machines(context) > 1:
        because = f"each machine caches it and does not see the others' writes; {NODES}: {context.origin(NODES)}"
        fix = "use skypilot.volume instead, with a volume that all machines can write"
        yield context.finding(
            f"{machines(context)} machines cannot share a bucket", f"{SECTION}.storage", because, fix=fix
        )
    for name in context.mapping(f"{SECTION}.resources"):
        if name in OWNED:
            message, because = f"skypilot.resources cannot set {name}", f"it comes from {OWNED[name]}"
            yield context.wrong(message, f"{SECTION}.resources", because, at=(SECTION, "resources", name))
    if context.whole("world.all_gpus") and not context.items(f"{SECTION}.accelerators"):
        yield from _without_a_gpu(context)


def _without_a_gpu(context: Context) -> Iterator[Finding]:
    """A finding if grpo-run does not know which GPUs to request."""
    from grpo_recipes.memory.estimate import fitting
    from grpo_recipes.rules._shared.memory_needs import memory_needs

    needs = memory_needs(context)
    found = None if isinstance(needs, str) else needs.estimate()
    peak = None if found is None else found.peak()
    if peak is None:
        message = "grpo-run does not know which GPUs are enough"
        because = needs if isinstance(needs, str) else (found and found.unknown) or "grpo-run has no estimate"
    elif not fitting(GPUS, peak.total()):
        message = f"none of {', '.join(GPUS)} has enough memory"
        because = f"it needs {peak.total() / GIB:.0f} GiB for each GPU to {peak.name}"
    else:
        return
    fix = "skypilot.accelerators: [H100], or other names of SkyPilot"
    yield context.finding(f"skypilot.accelerators is empty, and {message}", ENGINE, because, fix=fix)
