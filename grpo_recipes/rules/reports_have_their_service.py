"""Every service under logging.report_to is one that transformers knows, and its package is installed.

transformers builds what talks to the services when it builds the Trainer, after the model was loaded, and raises there
for a word that it does not know and for a package that is not installed. `all`, by itself, is every service whose
package is there; beside others it is no word. metrics.jsonl is always written.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.nearest import nearest_words
from grpo_recipes.rules._shared.context import Context

ID = "TRN003"
KEY = "GRPOConfig.report_to"
HOME = ("logging", "report_to")
# Service -> the packages any of which serves it; () where a package index name does not tell.
SERVICES: dict[str, tuple[str, ...]] = {
    "azure_ml": (),
    "clearml": ("clearml",),
    "codecarbon": ("codecarbon",),
    "comet_ml": ("comet-ml",),
    "dagshub": ("dagshub",),
    "dvclive": ("dvclive",),
    "flyte": ("flytekit",),
    "kubeflow": (),
    "mlflow": ("mlflow", "mlflow-skinny"),
    "neptune": ("neptune", "neptune-client"),
    "swanlab": ("swanlab",),
    "tensorboard": ("tensorboard", "tensorboardx"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
ALONE = ("all", "none")


def check(context: Context) -> Iterator[Finding]:
    services = context.value(KEY)
    if not isinstance(services, list):
        return
    for service in services:
        if service in ALONE and len(services) == 1:
            continue
        if service in SERVICES:
            yield from _package(context, services, service)
        else:
            yield _unknown(context, services, str(service))


def _without(services: list[object], service: str, instead: str | None = None) -> list[object]:
    """The list with another word in the place of one, or none."""
    changed = [instead if one == service else one for one in services]
    return [one for place, one in enumerate(changed) if one is not None and one not in changed[:place]]


def _unknown(context: Context, services: list[object], service: str) -> Finding:
    near = [] if service in ALONE else nearest_words(service, sorted(SERVICES), cutoff=0.5)
    left = _without(services, service, near[0] if near else None)
    reason = f"{service} is a word by itself alone" if service in ALONE else f"it knows {', '.join(SERVICES)}"
    return context.finding(
        ID,
        f"transformers reports to no service {service}",
        KEY,
        because=[f"{reason}; the Trainer raises ValueError, after the model was loaded"],
        fix=f"report_to: [{', '.join(map(str, left))}]",
        patch=[Patch(HOME, left)],
    )


def _package(context: Context, services: list[object], service: str) -> Iterator[Finding]:
    packages = SERVICES[service]
    if any(context.stack.version(package) for package in packages):
        return
    if not packages or not all(context.stack.is_known(package) for package in packages):
        message = f"not checked: whether {' or '.join(packages) or f'what {service} needs'} is installed"
        because = [f"{context.stack.origin} does not say"] if packages else ["its package is not looked for"]
        yield context.finding(ID, message, KEY, because=because, severity="not-checked")
        return
    left = _without(services, service)
    yield context.finding(
        ID,
        f"{packages[0]} is not installed, which report_to {service} needs",
        KEY,
        because=["the Trainer raises for it, after the model was loaded"],
        fix=f"pip install {packages[0]}, or report_to: [{', '.join(map(str, left))}]",
        patch=[Patch(HOME, left)],
    )
