"""docs/catalogue.md: the recipes of the catalogue by task, with what `grpo-run fit` says of each on its machine."""

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from grpo_recipes.memory.estimate import MemoryNeeds
from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.rules._shared.memory_needs import memory_needs
from grpo_recipes.stack.target import parse_target
from grpo_recipes.takeover.shipped import Shipped, shipped_recipes
from grpo_recipes.yaml.compose import compose

PAGE = Path(__file__).parents[2] / "docs" / "catalogue.md"
STACK = "tested,vllm==0.30.0"
INTRODUCTION = """# Recipe catalogue

`recipes/catalogue/` has recipes for GPUs. `grpo-run init --list` lists them, `grpo-run init NAME` writes a recipe as a
single file, and `extends: grpo-recipes:NAME` builds on a recipe without copying it. Start with
`qwen2_5_1_5b_gsm8k_lora`.

**Nobody has run these recipes yet**, because their models, their data and a GPU were not available. Each recipe
validates without a finding for its hardware on two stacks, the tested one and trl 0.29.1 with transformers 4.57.6. One
recipe of each method was trained for two steps with a tiny model and made-up rows. The names of columns come from the
data sets' cards and from published code, which the file of each task cites. If there is a published run, the recipe
uses its values; the list below has the differences and the published results.

GiB is the memory of the fullest GPU, as `grpo-run fit` estimates it for the listed hardware, with vLLM 0.30 if the
recipe can use it. A dash means that the estimate does not cover the recipe. For a different machine, run
`grpo-run fit RECIPE --target tested,vllm==0.30.0,gpus=1xA100-80GB`; `--set` changes one value. grpo-run refuses a
recipe that does not fit before it starts, and suggests changes that are enough.

## Choosing a recipe

- **By task.** GSM8K is the cheapest, with a published result for most sizes; MATH is harder, and DAPO-Math needs long
  answers. Countdown, JSON, function calls, instructions and reversed text have rewards that need no mathematics.
  `code` runs the model's code in [a sandbox](tools.md#code-that-the-model-writes).
- **By GPU.** LoRA fits on GPUs on which full training does not. If memory is still short, prefer a smaller model to a
  4-bit one: vLLM needs a second, dequantized copy of a 4-bit policy's base, and transformers is several times slower.
- **By what you change.** To train your own model on a task, write `extends: grpo-recipes:bases/gsm8k`, as in
  [Recipes](recipes.md#choosing-a-recipe). To train on your own data with the values of a recipe, use `--set
  dataset.path=rows.jsonl`, or a recipe that extends it.
"""


def texts() -> dict[Path, str]:
    """What the page should hold."""
    return {PAGE: page()}


def page() -> str:
    """The whole page: an introduction, a table, and where the values are from."""
    recipes = sorted((one for one in shipped_recipes() if one.is_whole), key=lambda one: one.task)
    by_task = {task: sorted(group, key=_place) for task, group in groupby(recipes, key=lambda one: one.task)}
    return "\n".join([INTRODUCTION, *_table(by_task), *_sources(by_task)])


def _place(one: Shipped) -> tuple[float, str]:
    return float(one.size.removesuffix("B")), one.name


def _table(by_task: dict[str, list[Shipped]]) -> list[str]:
    lines = [
        "## All recipes",
        "",
        "| recipe | model | trained | hardware | GiB |",
        "|---|---|---|---|---|",
    ]
    for task, recipes in by_task.items():
        lines.append(f"| **{task}** | | | | |")
        for one in recipes:
            lines.append(f"| `{one.name}` | {_model(one)} | {one.method} | {one.hardware} | {_memory(one)} |")
    return [*lines, ""]


def _memory(one: Shipped) -> str:
    """GiB of the fullest GPU, a dash where they are not known."""
    stack, findings = parse_target(f"{STACK},gpus={re.sub(r'^[0-9]+x(?=[0-9])', '', one.hardware)}")
    assert stack is not None, findings
    resolution = resolve(str(one.file), stack)
    assert resolution.context is not None
    needs = memory_needs(resolution.context)
    peak = needs.estimate().peak() if isinstance(needs, MemoryNeeds) else None
    return "-" if peak is None else f"{peak.total() / 2**30:.0f}"


def _model(one: Shipped) -> str:
    source, _ = compose(str(one.file))
    assert source is not None
    model = source.values["model"]
    assert isinstance(model, dict)
    return str(model["model_name_or_path"]).partition("/")[2]


def _sources(by_task: dict[str, list[Shipped]]) -> list[str]:
    lines = ["## Sources of the values, and published results", ""]
    for recipes in by_task.values():
        for one in recipes:
            lines += [f"**{one.name}**: {_said(one, 'Values')} Expected: {_said(one, 'Expected')}", ""]
    return lines


def _said(one: Shipped, word: str) -> str:
    """A paragraph of a recipe's head, on one line."""
    head: Sequence[str] = one.file.read_text(encoding="utf-8").partition("\nrecipe:")[0].splitlines()
    begins = next(place for place, line in enumerate(head) if line.startswith(f"# {word}: "))
    ends = next((at for at in range(begins + 1, len(head)) if re.match(r"# [A-Z][\w ]+: ", head[at])), len(head))
    text = " ".join(line.removeprefix("# ") for line in head[begins:ends]).removeprefix(f"{word}: ")
    return (text if text.endswith(".") else f"{text}.").replace("_", r"\_").replace("*", r"\*")
