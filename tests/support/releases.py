"""The releases of the tested stack, from grpo_recipes/stack/tested.json, so that no test names them."""

from grpo_recipes.stack.tested import read_tested_stack

STACK = read_tested_stack()
TESTED = {"python": STACK.python, **STACK.packages}
TRL, TRANSFORMERS = TESTED["trl"], TESTED["transformers"]


def pinned(names: str) -> str:
    """Items of a target: `pinned("trl peft")` is "trl==1.2.0,peft==0.3.0" with the tested releases."""
    return ",".join(f"{name}=={TESTED[name]}" for name in names.split())
