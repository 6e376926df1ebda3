"""benchmarks/distributed.md: every strategy beside ddp."""

from collections.abc import Iterator, Mapping

from distributed_runs import AUTOCAST, KINDS, STEPS, STRATEGIES, Run, difference

HEAD = """# The same training under each strategy

Written by `make test-distributed`: `recipes/quickstart.yaml` with {steps} steps of 64 completions in two accumulation
steps, AdamW, two processes on a CPU (`single`: one), through `grpo-run`. ZeRO-3 with
`stage3_param_persistence_threshold: 0`, so that every parameter is sharded. The columns compare each strategy with ddp
of the same kind: the largest difference over the steps of the mean reward, of the loss and of the gradient norm
(relative); the number of held-out evaluations that differ in any answer or reward; and the difference of the trained
weights in `final` as from_pretrained loads them. CPU seconds include all processes, the launcher and imports.

| strategy | kind | exit | reward | loss | gradient norm | evaluations | weights | CPU s |
|---|---|---|---|---|---|---|---|---|
"""
FOOT = """
`single` draws different completions than two processes do, because each process has its own random numbers. Its first
evaluation, before any step, equals that of ddp.

With nf4, TRL keeps the adapter in bfloat16. ddp updates these weights themselves and logs their norm rounded to
bfloat16; ZeRO updates a float32 copy of them. ZeRO therefore differs from ddp by bfloat16's rounding, 2^-8. Its three
stages agree with each other to 1e-5 in the first step; later, a weight may round in the other direction.

accelerate gives processes without a GPU plain DDP where FSDP2 is asked for; it is changed here, so that they have it:
`tests/distributed/fsdp_on_cpu/`.

With bf16 autocast on float32 weights, every strategy keeps and saves float32 weights; products and sums are rounded to
bfloat16 in different places than under ddp.

CPU seconds in all: {total:.0f}
"""


def table(runs: Mapping[tuple[str, str], Run]) -> str:
    """The page. runs: by strategy and kind."""
    text = HEAD.format(steps=STEPS) + "".join(f"{line}\n" for line in _lines(runs))
    return text + FOOT.format(total=sum(run.cpu_s for run in runs.values()))


def _lines(runs: Mapping[tuple[str, str], Run]) -> Iterator[str]:
    for kind in (*KINDS, *AUTOCAST):
        for strategy in (*STRATEGIES, "fsdp2"):
            run = runs.get((strategy, kind))
            if run is not None:
                cells = [strategy, kind, str(run.exit_code), *_figures(run, runs), f"{run.cpu_s:.0f}"]
                yield f"| {' | '.join(cells)} |"


def _figures(run: Run, runs: Mapping[tuple[str, str], Run]) -> list[str]:
    reference = runs.get(("ddp", run.kind))
    if run.exit_code != 0 or reference is None or reference.exit_code != 0:
        return ["-"] * 5
    if run.strategy == "single":
        same = run.evaluations()["step-0.jsonl"] == reference.evaluations()["step-0.jsonl"]
        return ["other draws"] * 3 + [f"first {'equal' if same else 'differs'}", "other draws"]
    apart = difference(run, reference)
    numbers = [f"{value:.1e}" if value else "0" for value in (apart.reward, apart.loss, apart.grad_norm)]
    return [*numbers, str(apart.evaluation), f"{apart.weights:.1e}" if apart.weights else "0"]
