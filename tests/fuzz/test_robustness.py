"""No recipe, however mutilated, brings grpo-run down: exit 0 or 2, below a second, in every format.

100,000 of them (`--fuzz full`), 5,000 otherwise. A failure shows the seed and the number of its input, which make it
again.
"""

import contextlib
import gc
import io
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from mutations import mutated
from support.releases import pinned
from valid_recipes import valid_recipe

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.report.plan_text import plan_text
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.stack.target import parse_target

pytestmark = pytest.mark.fuzz

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
# What is claimed is the full run's; a small one is also made on machines that are several times slower.
LIMIT_S, SLOW_LIMIT_S = 1.0, 4.0
HANGS_S = 60
FORMS, FREQUENCIES = ("text", "json", "github", "sarif", "plan"), (50, 10, 10, 1, 29)
REST = "torch==2.13.0,bitsandbytes==0.50.2,deepspeed==0.19.8,math-verify==0.9.0"
TARGETS = (
    f"{pinned('python trl transformers peft accelerate')},{REST},vllm==absent,gpus=0",
    f"{pinned('python trl transformers peft accelerate')},{REST},gpus=1xH100-80GB",
    f"trl==0.19.1,transformers==4.52.4,peft==0.15.2,accelerate==1.8.1,{REST},gpus=2xA100-80GB",
    "trl==0.14.0,transformers==4.48.3,gpus=1xT4",
    "gpus=4",
)
TARGET_FREQUENCIES = (25, 45, 10, 10, 10)


class Hangs(Exception):
    """An input that takes longer than any may."""


@contextlib.contextmanager
def _ending_after(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _seeds(draw: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """The shipped recipes and some that use the whole format: text and values."""
    shipped = [path.read_text(encoding="utf-8") for path in RECIPES]
    made = [yaml.safe_dump(valid_recipe(draw)[0], sort_keys=False) for _ in range(12)]
    return [(text, yaml.safe_load(text)) for text in [*shipped, *made]]


def _code(arguments: list[str]) -> int:
    """What a command ends with; what it raises flies on."""
    from grpo_recipes.cli.main import grpo_run
    from grpo_recipes.contract.exits import Refusal

    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return int(grpo_run.main(arguments, prog_name="grpo-run", standalone_mode=False) or 0)
    except Refusal as refusal:
        return refusal.exit_code


def _planned(target: str, file: str) -> int:
    """What `plan` would end with; a recipe that is not refused has a plan."""
    stack, findings = parse_target(target)
    assert stack is not None, findings
    resolution = resolve(file, stack)
    if resolution.refused:
        return 2
    plan_text(plan_of(resolution))
    return 0


def _tried(draw: random.Random, file: str) -> tuple[int, str]:
    """Checks the recipe in one of the formats, or plans it, for one of the stacks; the exit, and what was done."""
    target, form = draw.choices(TARGETS, TARGET_FREQUENCIES)[0], draw.choices(FORMS, FREQUENCIES)[0]
    did = f"{form} {target}"
    if form == "plan":
        return _planned(target, file), did
    return _code(["validate", "--format", form, "--target", target, file]), did


def test_no_mutilated_recipe_brings_it_down(
    is_full: bool, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grpo_recipes.cli.main  # noqa: F401, turns the garbage collection off, for one recipe and not for thousands

    gc.enable()
    (tmp_path / "rewards.py").write_text("def f(completions, **kwargs):\n    return [0.0 for _ in completions]\n")
    monkeypatch.chdir(tmp_path)
    draw = random.Random(f"robustness {seed}")
    seeds, file = _seeds(draw), tmp_path / "recipe.yaml"
    names = [key.rpartition(".")[2] for key in recipe_keys()] + list(classified_fields())
    codes: Counter[int] = Counter()
    wrong, longest_s = [], 0.0
    for number in range(100_000 if is_full else 5_000):
        one = random.Random(f"{seed} {number}")
        data = mutated(one, *one.choice(seeds), names)
        file.write_bytes(data)
        started = time.process_time()
        try:
            with _ending_after(HANGS_S):
                code, did = _tried(one, file.name)
        except Exception as error:
            wrong.append((number, type(error).__name__, str(error)[:200], data[:400]))
            continue
        took_s = time.process_time() - started
        codes[code] += 1
        longest_s = max(longest_s, took_s)
        if code not in (0, 2) or took_s > (LIMIT_S if is_full else SLOW_LIMIT_S):
            wrong.append((number, code, round(took_s, 1), did, data[:400]))
    print(f"\n{sum(codes.values())} mutilated recipes: exits {dict(codes)}, the longest {longest_s:.3f} CPU s")
    kinds = Counter(entry[1:3] for entry in wrong)
    assert wrong == [], f"seed {seed}: {len(wrong)}, {kinds.most_common(8)}, the first: {wrong[0]}"
    assert min(codes[0], codes[2]) > sum(codes.values()) // 50, "the draw is no test any more"
