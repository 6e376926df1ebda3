"""`grpo-run generate`: a trained model's answers to a prompt, or to held-out rows with their rewards."""

import shlex

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import allow_code_option
from grpo_recipes.cli.options import a_run
from grpo_recipes.cli.trained_run import image_part, print_answer, read_trained_run
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.report.trained_text import generate_text


@click.command()
@click.argument("run", metavar="RUNDIR", shell_complete=files, callback=a_run)
@click.argument("prompt", required=False)
@click.option("--image", "images", multiple=True, metavar="FILE", help="Show the prompt with this image; repeatable.")
@click.option("--rows", type=click.IntRange(1, 100_000), help="Answer this many held-out rows, and score the answers.")
@click.option("--held-out", metavar="SET", help="With --rows: take the rows of this held-out set.")
@click.option("--base", is_flag=True, help="Also show the untrained model's answers.")
@click.option("--greedy", is_flag=True, help="Take the most likely token instead of sampling as in the recipe.")
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print the answers as JSON.")
def generate(
    run: str,
    prompt: str | None,
    images: tuple[str, ...],
    rows: int | None,
    held_out: str | None,
    base: bool,
    greedy: bool,
    allowed: tuple[str, ...],
    as_json: bool,
) -> int:
    """Answer a prompt or held-out rows with a run's trained model.

    Uses the recipe's chat template, stops, sampling and tools, and for rows its rewards. Exit codes: 0 answered, 1 a
    reward failed, 2 nothing was started, 3 data, rewards or tools differ from the run's, or an image cannot be shown.

    \b
    grpo-run generate runs/addition-20260101-120000 --rows 20 --greedy
    """
    if (prompt is None) == (rows is None):
        raise Refusal.of(
            "generate needs either a prompt or --rows",
            fix=f'grpo-run generate {shlex.quote(run)} "PROMPT", or --rows 20',
        )
    if images and prompt is None:
        raise Refusal.of("--image needs a prompt", because="rows have their own images", fix="leave out --image")
    parts = [image_part(file) for file in images]
    plan, folder = read_trained_run(run, allowed, with_rewards=prompt is None, with_tools=True)
    sets = [] if plan.evaluation is None else [part.name for part in plan.evaluation.sets if part.name]
    if held_out is not None and rows is None:
        raise Refusal.of(
            f"--held-out {held_out} needs --rows",
            fix="--rows 20 instead of the prompt, or leave out --held-out",
        )
    if held_out is not None and held_out not in sets:
        has = f"it has {', '.join(sets)}" if sets else "its held-out sets have no names"
        fix = f"--held-out {sets[0]}, or another of them" if sets else "leave out --held-out"
        raise Refusal.of(f"the run has no held-out set {held_out}", because=has, fix=fix)
    asked = [*parts, {"type": "text", "text": prompt}] if parts else prompt
    request: dict[str, object] = {"run": folder, "prompt": asked, "rows": rows, "base": base, "greedy": greedy}
    request["held_out"] = held_out
    from grpo_recipes.launch.worker_part import part_answer  # only needed to run something

    answer = part_answer(plan, "answering.start", "generate", request)
    return print_answer(answer, "generate", generate_text, as_json=as_json)
