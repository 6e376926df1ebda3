"""Kubernetes accepts the names and quantities of a recipe, and the Job has an image and a disk.

The API server refuses a whole manifest for one bad name or quantity, and reports the manifest's field, not the recipe's
key. It accepts some mistakes: with `16m` of memory, a sixtieth of a byte, no pod starts. `kubernetes.pod` takes the
fields of a pod that select its machine and set its permissions; grpo-run writes what the pod runs and mounts. The rule
does not check these fields; `kubectl apply --dry-run=server` does.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Path, value_at
from grpo_recipes.contract.findings.wording import flow
from grpo_recipes.facts.cluster_words import faults
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import ENGINE

ID = "WLD010"
SECTION = "kubernetes"
REQUIRED = {
    "image": ("the pods need an image with the training stack", "registry.example.com/team/grpo-run:1"),
    "volume_claim": ("the run folder has to outlive the pods", "NAME, of a PersistentVolumeClaim"),
}


def check(context: Context) -> Iterator[Finding]:
    if context.value(ENGINE) != SECTION:
        return  # WLD005 reports that the section has no effect
    for name, (because, example) in REQUIRED.items():
        if context.value(f"{SECTION}.{name}") is None:
            yield context.finding(f"{SECTION}.{name} is missing", ENGINE, because, fix=f"{SECTION}.{name}: {example}")
    section = context.settings.under(SECTION)
    for place, expected in faults(section):
        name, _, inside = place.partition(".")
        path: Path = (SECTION, name, inside) if inside else (SECTION, name)
        if path in context.refused:
            continue
        value = value_at({SECTION: section}, path)
        message = f"Kubernetes does not accept {flow(value)} as {SECTION}.{place}"
        because = f"it has to be {expected}"
        better = _quantity(value) if expected.startswith("a number with") else None
        if better is not None or inside:
            yield context.wrong(message, f"{SECTION}.{name}", because, better, at=path)
        else:
            yield context.finding(message, f"{SECTION}.{name}", because, fix=f"{name}: {expected}")


def _quantity(value: object) -> str | None:
    """16Gi for 16GB, 16 gb or 16GiB, as people write it."""
    found = re.fullmatch(r"([1-9][0-9]*) ?([KMGT])i?B?", str(value), re.IGNORECASE)
    return f"{found[1]}{found[2].upper()}i" if found else None
