"""Values that GRPOConfig takes without a word, and with which nothing can be trained, are refused where they stand.

The library notices each of them after the model was loaded, after a first generation, or never.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from small_recipe import BASE, STACK, declared, errors

from grpo_recipes.resolve.resolve import resolve

VLLM = STACK.replace("vllm==absent,gpus=0", "vllm==0.30.0,gpus=1xH100-80GB")

# key, its line as a user writes it, the rule that refuses it
SILLY = [
    ("grpo.loss_type", "loss_type: dapoo", "FCT005"),
    ("grpo.importance_sampling_level", "importance_sampling_level: tokn", "FCT005"),
    ("grpo.scale_rewards", "scale_rewards: grop", "FCT005"),
    ("grpo.epsilon", "epsilon: -3", "SCH003"),
    ("grpo.num_generations", "num_generations: 8.0", "SCH002"),
    ("grpo.num_generations", "num_generations: 8.5", "SCH002"),
    ("grpo.num_generations", "num_generations: 1", "SCH003"),
    ("grpo.beta", "beta: -1", "SCH003"),
    ("generation.vllm_mode", "vllm_mode: colocat", "FCT005"),
    ("generation.temperature", "temperature: -1", "SCH003"),
    ("generation.temperature", "temperature: 0", "SCH003"),
    ("generation.top_p", "top_p: 7", "SCH003"),
    ("generation.max_completion_length", "max_completion_length: -5", "SCH003"),
    ("generation.vllm_gpu_memory_utilization", "vllm_gpu_memory_utilization: 1.7", "SCH003"),
    ("trl.vllm_importance_sampling_mode", "vllm_importance_sampling_mode: token_trunc", "FCT005"),
    (
        "training.gradient_checkpointing_kwargs",
        "gradient_checkpointing_kwargs: {use_reentrnt: false}",
        "LRA001",
    ),
    ("training.learning_rate", "learning_rate: fast", "SCH002"),
    ("training.learning_rate", 'learning_rate: "1e-5"', "SCH002"),
]


WITHOUT_TORCH = """
import sys
from grpo_recipes.cli.main import grpo_run
code = grpo_run.main(["validate", "--target", sys.argv[2], sys.argv[1]], standalone_mode=False)
print(sorted({"torch", "transformers", "trl", "peft", "vllm", "numpy"} & set(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


def _recipe(key: str, line: str) -> str:
    """The base recipe with a section that has the line last."""
    section = key.partition(".")[0]
    needed = {"generation": "use_vllm: true", "training": "prompts_per_step: 4"}.pop(section, None)
    above = [entry for entry in BASE.splitlines() if not entry.startswith(f"{section}:")]
    if section != "generation":
        above.append("generation: {use_vllm: true}")
    return "\n".join([*above, f"{section}:", *([f"  {needed}"] if needed else []), f"  {line}"])


@pytest.mark.parametrize(("key", "line", "rule"), SILLY, ids=[line for _, line, _ in SILLY])
def test_a_silly_value_is_refused_where_it_stands(key: str, line: str, rule: str, tmp_path: Path) -> None:
    text = _recipe(key, line)
    path = tmp_path / "silly.yaml"
    path.write_text(text, encoding="utf-8")
    found = errors(resolve(str(path), declared(VLLM)))
    assert [(finding.rule, finding.key) for finding in found] == [(rule, key)]
    mark = found[0].mark
    assert mark is not None
    assert (mark.line, mark.line_text.strip()) == (len(text.splitlines()), line)
    assert mark.line_text[mark.column - 1 :].startswith((key.rpartition(".")[2], "use_reentrnt"))


@pytest.mark.processes
def test_all_of_them_are_refused_at_once_without_torch(tmp_path: Path) -> None:
    """One process, as a user has it; it has no time to import what it speaks of."""
    by_section: dict[str, list[str]] = {}
    for key, line, _ in {entry[0]: entry for entry in SILLY}.values():
        by_section.setdefault(key.partition(".")[0], []).append(f"  {line}")
    by_section["generation"].append("  use_vllm: true")
    by_section["training"] += ["  prompts_per_step: 4", "  bf16: false"]
    rest = [entry for entry in BASE.splitlines() if entry.partition(":")[0] not in by_section]
    text = "\n".join([*rest, *(line for name, lines in by_section.items() for line in [f"{name}:", *lines])])
    path = tmp_path / "silly.yaml"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, path, VLLM], capture_output=True, text=True, timeout=180
    )
    assert (done.returncode, done.stderr.strip()) == (2, "[]"), done.stderr
    for number, line in enumerate(text.splitlines(), start=1):
        is_silly = any(line == f"  {written}" for _, written, _ in SILLY)
        assert (f"silly.yaml:{number}:" in done.stdout) == is_silly, (line, done.stdout)


def test_the_values_beside_the_silly_ones_are_taken(tmp_path: Path) -> None:
    text = f"{BASE}generation: {{use_vllm: true, vllm_mode: colocate, temperature: 0.7, top_p: 0.7}}\n" + (
        "grpo: {loss_type: dapo, importance_sampling_level: token, scale_rewards: group, epsilon: 0.3}\n"
        "trl: {vllm_importance_sampling_mode: token_truncate}\n"
    )
    path = tmp_path / "right.yaml"
    path.write_text(text, encoding="utf-8")
    assert errors(resolve(str(path), declared(VLLM))) == []
