"""A recipe folder as a team has it: model, rows, a reward, a chat template, and the run folder of its plan."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import yaml
from support.releases import pinned

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart"
STACK = f"python==3.11.9,{pinned('torch trl transformers peft')},gpus=0"
REWARD = "def last_digit(completions, **kwargs):\n    return [0.0 for _ in completions]\n"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
RECIPE = {
    "recipe": 1,
    "name": "small",
    "seed": 7,
    "model": {"model_name_or_path": "./model"},
    "tokenizer": {"chat_template_path": "chat.jinja"},
    "lora": {"r": 4},
    "dataset": {"path": "./rows.jsonl", "prompt": "{{ question }}"},
    "evaluation": {"path": "./held-out.jsonl"},
    "rewards": [{"python": "rewards.py:last_digit"}],
    "generation": {"max_completion_length": 6},
    "grpo": {"num_generations": 4},
    "training": {"prompts_per_step": 4, "max_steps": 2},
}


def make_project(folder: Path, changes: dict[str, object] | None = None) -> Path:
    """The folder with everything that the recipe names. changes: whole sections of the recipe, None takes one out."""
    folder.mkdir(parents=True)
    shutil.copytree(QUICKSTART / "model", folder / "model")
    for name in ("rows", "held-out"):
        (folder / f"{name}.jsonl").write_text('{"question": "1+1="}\n' * 8)
    (folder / "rewards.py").write_text(REWARD)
    (folder / "chat.jinja").write_text(TEMPLATE)
    values = {key: value for key, value in (RECIPE | (changes or {})).items() if value is not None}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return folder


def planned(project: Path, grpo_run: Callable, *options: str, stack: str = STACK) -> Path:
    """The run folder of the project, nothing started."""
    run = project / "runs" / "first"
    answer = grpo_run(str(project / "recipe.yaml"), "--target", stack, "--dry-run", "--out", str(run), *options)
    assert answer.code == 0, answer.err
    return run


def drift_of(
    run: Path, grpo_run: Callable, *options: str, stack: str = STACK
) -> tuple[int, dict[str, dict[str, object]]]:
    """How `--validate-only` ends, and its lines by what they are about."""
    answer = grpo_run(str(run), "--target", stack, "--validate-only", "--json", *options)
    assert answer.out, answer.err
    document = json.loads(answer.out)
    return answer.code, {line["what"]: line for line in document["lines"]}


def states(lines: dict[str, dict[str, object]], state: str = "differs") -> dict[str, object]:
    """What is in this state, with its kind."""
    return {what: line["kind"] for what, line in lines.items() if line["state"] == state}
