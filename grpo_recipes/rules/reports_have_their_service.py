"""transformers supports every service under logging.report_to, and its package is installed.

transformers sets the services up when it builds the Trainer, after loading the model, and raises there for an unknown
name or a missing package. `all` means every service whose package is installed, and cannot be combined with other
services. metrics.jsonl is always written.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import command_for

ID = "TRN003"
KEY = "GRPOConfig.report_to"
HOME = ("logging", "report_to")
ALONE = ("all", "none")


def check(context: Context) -> Iterator[Finding]:
    services = context.value(KEY)
    if not isinstance(services, list):
        return
    for service in services:
        if service in ALONE and len(services) == 1:
            continue
        if service in table("trainer_words")["services"]:
            yield from _package(context, services, service)
        else:
            yield _no_such_service(context, services, str(service))


def _without(services: list[object], service: str, instead: str | None = None) -> list[object]:
    """The list with one name replaced or removed."""
    changed = [instead if name == service else name for name in services]
    return [name for index, name in enumerate(changed) if name is not None and name not in changed[:index]]


def _no_such_service(context: Context, services: list[object], service: str) -> Finding:
    known = table("trainer_words")["services"]
    near = [] if service in ALONE else nearest_words(service, sorted(known), cutoff=0.5)
    left = _without(services, service, near[0] if near else None)
    supported = f"it supports {', '.join(known)}"
    reason = f"{service} cannot be combined with other services" if service in ALONE else supported
    because = f"{reason}; the Trainer raises ValueError, after loading the model"
    return context.wrong(f"transformers does not support the service {service}", KEY, because, left)


def _package(context: Context, services: list[object], service: str) -> Iterator[Finding]:
    packages = table("trainer_words")["services"][service]
    if any(context.stack.version(package) for package in packages):
        return
    if not packages or not all(context.stack.is_known(package) for package in packages):
        message = f"not checked: whether {' or '.join(packages) or f'the package of {service}'} is installed"
        because = [f"{context.stack.origin} does not say"] if packages else ["grpo-run does not know its package"]
        yield context.not_checked(message, KEY, because)
        return
    left = _without(services, service)
    message = f"report_to {service} needs {packages[0]}, which is not installed"
    why = "the Trainer raises after loading the model"
    fix = f"{command_for(context.stack, packages[:1])}, or report_to: [{', '.join(map(str, left))}]"
    yield context.wrong(message, KEY, why, left, fix=fix)
