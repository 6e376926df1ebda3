"""What a run came from, a line for each run."""

from collections.abc import Sequence

from grpo_recipes.contract.plan_sections import Forebear

_MADE_OF_IT = {
    "weights": "starts from",
    "merge": "merged from",
    "continue": "goes on with",
    "extend": "extends",
}


def lineage_lines(runs: Sequence[Forebear]) -> list[str]:
    """The runs, the nearest first: "goes on with second, step 200, plan 7c2a3e5fdaf9, weights bbfc5402b8de"."""
    return [_line(run) for run in runs]


def _line(run: Forebear) -> str:
    name = "".join(letter if letter.isprintable() else "?" for letter in run.name)
    said = [f"{_MADE_OF_IT.get(run.use, run.use)} {name}", *([f"step {run.step}"] if run.step is not None else [])]
    digests = (("plan", run.plan_sha256), ("weights", run.weights_sha256))
    return ", ".join([*said, *(f"{what} {digest[:12]}" for what, digest in digests if digest)])
