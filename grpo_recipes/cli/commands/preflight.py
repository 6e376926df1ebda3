"""`grpo-run preflight`: tries data, tokenizer, rewards and tools on this machine without the model."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import allow_code_option, ask_trust, recipe_files
from grpo_recipes.cli.options import RunOptions, accept_option, choose_stack, set_option, strict_option
from grpo_recipes.cli.resolving import findings_answer, resolve_recipe
from grpo_recipes.contract.exits import EXIT_DONE, EXIT_NOT_STARTED
from grpo_recipes.contract.findings.finding import Finding, by_place, has_errors, of_record
from grpo_recipes.contract.findings.wording import align_rows, one_line
from grpo_recipes.contract.host.child_environment import OF_THE_HUB, OF_VLLM, find_locked_caches, small_for_nccl
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.resolve.resolve import plan_of
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe_text
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.yaml.compose import Source

GIB = 1 << 30
# Checks that a rule may already have done, if the model or the data is a local file.
SAID_BY_RULES = {"PFL008": ("DAT003", "RWD004"), "PFL011": ("TOK003",)}


@click.command()
@click.argument("recipe", shell_complete=files)
@set_option
@strict_option
@accept_option
@click.option(
    "--rows",
    default=32,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Number of rows to try the rewards on.",
)
@click.option(
    "--time-limit",
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86_400),
    help="Time limit for a call of a reward or a tool, in seconds; for a tool at least its own timeout plus 5 s.",
)
@click.option(
    "--memory-limit",
    metavar="GIB",
    type=click.FloatRange(0.01),
    help="Memory limit for a reward, in GiB. Default: four fifths of the free memory.",
)
@click.option(
    "--on-nodes",
    metavar="N",
    type=click.IntRange(1, 10_000),
    help="Only check N nodes of the cluster, allocated as the job's would be.",
)
@click.option(
    "--queue-limit",
    default=600,
    show_default=True,
    metavar="SECONDS",
    type=click.IntRange(1, 86_400),
    help="Seconds that --on-nodes may wait in the cluster's queue.",
)
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def preflight(
    recipe: str,
    rows: int,
    time_limit: float,
    memory_limit: float | None,
    on_nodes: int | None,
    queue_limit: int,
    **options: Any,
) -> int:
    """Try data, tokenizer, rewards and tools of a recipe; no model, no GPU.

    Reads all rows, shows prompts as the model gets them, calls each reward with right answers, empty completions and
    garbage, and calls tools and environments as preflight.turns says, all in separate processes. Exits 0 without
    errors, 2 with errors. It checks this machine, so it has no --target; --on-nodes checks nodes of the cluster.

    \b
    grpo-run preflight recipe.yaml
    """
    asked = RunOptions(**options)
    resolution = resolve_recipe(recipe, choose_stack(None, trains=True), asked)
    if resolution.refused or resolution.context is None:
        return _answer(resolution.file, list(resolution.findings), "", asked.as_json)
    from grpo_recipes.lock.pinned import with_pinned_code  # other commands do not need it

    plan = with_pinned_code(plan_of(resolution))
    ask_trust(plan, asked.allowed, recipe_files(resolution.context.source), plays_turns=True)
    if on_nodes is not None:
        from grpo_recipes.engines.base import engine_of

        findings = engine_of(plan).look(plan, on_nodes, queue_limit, sys.stderr)
        return _answer(resolution.file, [*resolution.findings, *findings], "", asked.as_json)
    limits: dict[str, object] = {
        "rows": rows,
        "time_limit": time_limit,
        "memory_limit": None if memory_limit is None else int(memory_limit * GIB),
    }
    here = [*_of_the_caches(plan), *_of_nccl(plan)]
    if has_errors(here):
        return _answer(resolution.file, [*resolution.findings, *here], "", asked.as_json)
    findings, text = _run_preflight(plan, resolution.context, limits, strict=asked.strict)
    news = [finding for finding in findings if not _is_reported(finding, resolution.findings)]
    return _answer(resolution.file, [*resolution.findings, *here, *news], text, asked.as_json)


def _of_the_caches(plan: Plan) -> list[Finding]:
    """Reports caches that this user cannot write: an error if the run's processes use vLLM, which would crash.

    The hub's cache only gets a warning: it may be shared and complete, and then nothing is written to it.
    """
    is_here = plan.vllm is not None and plan.vllm.mode == "colocate" and plan.world.device == "cuda"
    for_vllm = OF_VLLM if is_here else ()
    sources = [plan.model.source, *(data.source for data in plan.training_data.values())]
    for_the_hub = OF_THE_HUB if "hub" in sources else ()
    locked = find_locked_caches(os.environ, for_vllm, "error"), find_locked_caches(os.environ, for_the_hub, "warning")
    return [finding for finding in locked if finding is not None]


def _of_nccl(plan: Plan) -> list[Finding]:
    """Reports limits that may be too small for NCCL, if the run uses it on this machine."""
    is_here = not ENGINES[plan.world.engine].trains_elsewhere
    return small_for_nccl() if is_here and plan.world.device == "cuda" and plan.world.num_processes > 1 else []


def _run_preflight(
    plan: Plan, context: Context, limits: dict[str, object], *, strict: bool
) -> tuple[list[Finding], str]:
    """The worker's findings and output; keeps the prompt lengths for estimates."""
    from grpo_recipes.launch.worker_part import part_answer
    from grpo_recipes.rules._shared.memory_needs import prompts_key
    from grpo_recipes.user_files.local_rows import CountedPrompts, keep_counted

    source = context.source
    request = {**_length(plan), **limits}
    answer = part_answer(plan, "preflight.start", "preflight", request, merged_recipe_text(source))
    if (counted := answer["shown"]["counted"]) is not None and (key := prompts_key(context)) is not None:
        keep_counted(key, CountedPrompts(**counted))
    return [_finding(fault, source, strict=strict) for fault in answer["faults"]], preflight_text(answer["shown"])


def _length(plan: Plan) -> dict[str, object]:
    """The worker's inputs in addition to the plan."""
    given = {**plan.arguments.GRPOConfig}
    of_the_recipe = {setting.key: setting.value for setting in plan.settings}
    max_steps = given.get("max_steps")
    return {
        "seed": given.get("seed", 42),
        "max_steps": max_steps if isinstance(max_steps, int) and max_steps > 0 else None,
        "epochs": given.get("num_train_epochs", 3.0),
        "num_iterations": given.get("num_iterations", 1),
        "shuffled": of_the_recipe.get("GRPOConfig.shuffle_dataset", given.get("shuffle_dataset", True)) is not False,
    }


def _finding(fault: dict[str, Any], source: Source, *, strict: bool) -> Finding:
    finding = of_record(fault)
    finding = finding._replace(mark=source.mark(finding.path))
    return finding._replace(severity="error") if strict and finding.severity == "not-checked" else finding


def _is_reported(finding: Finding, reported: Sequence[Finding]) -> bool:
    """Whether a rule that read the files already reported the same."""
    name = finding.key.rpartition(".")[2]
    return any(each.rule in SAID_BY_RULES.get(finding.rule, ()) and name in each.message for each in reported)


def _answer(file: str, findings: list[Finding], text: str, as_json: bool) -> int:
    findings = by_place(findings)
    click.echo(redact(findings_answer(file, findings, as_json=as_json, between=text)))
    return EXIT_NOT_STARTED if has_errors(findings) else EXIT_DONE


WIDTH = 12


def preflight_text(shown: Mapping[str, Any]) -> str:
    """The answer below the findings, "" without results. shown: as the worker writes it."""
    if "sources" in shown:  # of a mixture
        return "\n\n".join(f"source {one_line(part['source'])}\n{preflight_text(part)}" for part in shown["sources"])
    blocks = [
        _lines(shown["lines"]),
        *map(_tool, shown["tools"]),
        *map(_example, shown["examples"]),
        _play_text(shown["played"]),
        _rewards(shown["rewards"]),
        *map(_judge, shown["judges"]),
    ]
    return "\n\n".join(block for block in blocks if block)


def _lines(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"{name:<{WIDTH}}{one_line(text)}" for name, text in lines)


def _example(example: Mapping[str, Any]) -> str:
    head = f"prompt of row {example['row']}"
    lines = [head, *(f"  | {one_line(line)}" for line in example["prompt"].split("\n"))]
    lines += [f"  {case}: {one_line(text)}" for case, text in example["gold"].items()]
    return "\n".join(lines)


def _tool(tool: Mapping[str, Any]) -> str:
    """The tool's description for the model, empty if it has none."""
    if tool["schema"] is None:
        return ""
    text = json.dumps(tool["schema"], indent=1, ensure_ascii=False)
    return "\n".join([f"tool {one_line(tool['name'])}", *(f"  | {one_line(line)}" for line in text.split("\n"))])


def _play_text(played: Mapping[str, Any] | None) -> str:
    """The calls, each with its answer and duration, and the completion's rewards."""
    if played is None or not played["calls"]:
        return ""
    how = "preflight.turns" if played["scripted"] else "generated from the tools"
    tokens = "" if played["tokens"] is None else f", {played['tokens']} tokens"
    lines = [f"played on row {played['row']} ({how}{tokens})"]
    beside = [call for call in played["calls"] if not call["turn"]]
    lines += [line for call in played["calls"] if call["turn"] for line in _call(call)]
    if played["answer"] is not None:
        lines.append(f"  says {one_line(played['answer'])}")
    lines += [f"  reward {one_line(name)}: {_value(value)}" for name, value in played["rewards"].items()]
    if beside:
        lines += ["  also tried", *(line for call in beside for line in _call(call))]
    return "\n".join(lines)


def _call(call: Mapping[str, Any]) -> list[str]:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call["arguments"].items())
    first, *rest = call["answer"].split("\n")
    answer = [one_line(first), *(f"    {one_line(line)}" for line in rest)]
    failed = "failed, " if call["failed"] else ""
    return [
        f"  {one_line(call['tool'])}({one_line(arguments)}) -> {answer[0]}  ({failed}{_time(call['seconds'])})",
        *answer[1:],
    ]


def _value(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"


def _judge(judge: Mapping[str, Any]) -> str:
    """The question to a judge about a row, its answer and the score."""
    lines = [f"{one_line(judge['name'])} on row {judge['row']}: {one_line(judge['at'])} is asked"]
    lines += [f"  | {one_line(line)}" for line in judge["question"].split("\n")]
    if judge["answer"]:
        first, *rest = judge["answer"].split("\n")
        lines += [f"  says {one_line(first)}", *(f"    {one_line(line)}" for line in rest)]
        lines.append(f"  reward {one_line(judge['name'])}: {_value(judge['score'])}")
    return "\n".join(lines)


def _rewards(rewards: Sequence[Mapping[str, Any]]) -> str:
    """Mean rewards, with a column for each kind of completion."""
    cases = list(dict.fromkeys(case for reward in rewards for case in reward["values"]))
    if not cases:
        return ""
    rows = [["reward", "weight", *cases, "time per call"]]
    for reward in rewards:
        values = [_number(reward["values"].get(case), reward) for case in cases]
        rows.append([str(reward["name"]), f"{reward['weight']:g}", *values, _time(reward["seconds"])])
    return "\n".join(align_rows(rows))


def _number(value: float | None, reward: Mapping[str, Any]) -> str:
    if not reward["values"]:
        return "-"
    return _value(value)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2g} s" if seconds >= 0.1 else f"{seconds * 1e3:.2g} ms"
