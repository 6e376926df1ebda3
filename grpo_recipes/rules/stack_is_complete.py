"""The stack has every package that the recipe needs.

Every recipe needs trl, transformers, torch, accelerate and datasets; an adapter needs peft, quantization bitsandbytes,
the ZeRO strategies deepspeed, the reward accuracy math-verify, Liger's kernels liger-kernel. A vision-language model
loads its processor for text rows too, which needs Pillow and for some families torchvision. A missing package raises
ImportError in every process, in some cases after loading the model.

If a package of every run is missing, `validate` and other commands that train nothing judge as for `--target tested`.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import command_for, packages_needed

ID = "STK010"
# If their releases are unknown, so are the facts, and STK011 reports that once.
OWNERS = ("trl", "transformers", "peft")


def check(context: Context) -> Iterator[Finding]:
    wanted = list(packages_needed(context))
    unknown = [package for package, *_ in wanted if not context.stack.is_known(package) and package not in OWNERS]
    if unknown:
        message = f"not checked: whether {', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} installed"
        yield context.not_checked(message, "recipe", f"{context.stack.origin} does not say")
    absent = [need for need in wanted if context.stack.is_absent(need[0])]
    for extra in dict.fromkeys(extra for *_, extra in absent):
        yield _missing(context, [need for need in absent if need[3] == extra], extra)


def _missing(context: Context, absent: list[tuple[str, str, str, str]], extra: str) -> Finding:
    """One finding for all packages that the same command installs."""
    packages = [package for package, *_ in absent]
    message = f"{', '.join(packages)} {'is' if len(packages) == 1 else 'are'} not installed"
    return context.finding(message, absent[0][1], _reasons(absent), fix=command_for(context.stack, packages, extra))


def _reasons(absent: list[tuple[str, str, str, str]]) -> list[str]:
    """Each reason once, with its packages if there are several."""
    by_reason: dict[str, list[str]] = {}
    for package, _, why, _ in absent:
        by_reason.setdefault(why, []).append(package)
    return [why if len(by_reason) == 1 else f"{', '.join(names)}: {why}" for why, names in by_reason.items()]
