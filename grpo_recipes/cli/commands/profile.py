"""`grpo-run profile`: measures how often the model solves each training row before training."""

import os
import re
import shlex
from dataclasses import fields, replace
from typing import Any

import click

from grpo_recipes.cli.completion import files
from grpo_recipes.cli.launching import allow_code_option, ask_trust, recipe_files
from grpo_recipes.cli.options import RunOptions, accept_option, choose_stack, set_option
from grpo_recipes.cli.resolving import resolve_recipe
from grpo_recipes.cli.trained_run import print_answer
from grpo_recipes.contract.exits import EXIT_NOT_STARTED, Refusal
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Passes
from grpo_recipes.contract.profile import ASKED, profile_in_row, profile_of
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.trained_text import profile_text
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.resolve.variants.merged_recipe import merged_recipe_text
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import held_out_sets
from grpo_recipes.rules.passing_is_defined import REWARD, RIGHT, check_set, what_passes
from grpo_recipes.user_files.local_rows import first_row

OF_A_TRAINING = ("EVL001", "MEM001", "DAT002")
"""Rules that do not apply, since a profile evaluates training rows, updates no weights and takes no steps."""
HELD_OUT = ("DAT012", "evaluation.path")
"""The rule and the key of a mixture without held-out rows, which a profile does not need."""
OF_A_CHOICE = ("filter", "shuffle_seed", "max_prompt_tokens", "sort_by")
"""Keys that drop or reorder training rows; the file has all rows, in the order of the data."""
UNSAID = "EVL004"
"""The rule that a recipe defines what passes; its message is about a key that the command sets, or a held-out set."""
WEIGHTS = "reward_weights"
ONE_PROCESS = ("launch.engine=local", "launch.num_nodes=1", "launch.num_processes=1", "distributed.strategy=auto")
SUFFIX = ".jsonl"


@click.command()
@click.argument("recipe", shell_complete=files)
@set_option
@accept_option
@click.option(
    "-o", "--out", required=True, metavar="FILE", shell_complete=files, help="Output file, .jsonl; it must not exist."
)
@click.option(
    "--samples", default=8, show_default=True, type=click.IntRange(2, 10_000), help="Number of answers per row."
)
@click.option("--max-rows", type=click.IntRange(1), help="Answer only this many rows, the first ones.")
@click.option("--source", metavar="NAME", help="Answer the rows of this source of a mixture.")
@click.option("--base-url", metavar="URL", help="Ask this OpenAI-compatible server instead, e.g. http://host:8000/v1.")
@click.option("--model", metavar="NAME", help="The server's name for the model. Default: the recipe's.")
@click.option("--key-variable", metavar="NAME", help="Environment variable with the server's API key. Default: no key.")
@allow_code_option
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def profile(
    recipe: str,
    out: str,
    samples: int,
    max_rows: int | None,
    source: str | None,
    base_url: str | None,
    model: str | None,
    key_variable: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Write the training rows with the share of answers that pass, before training.

    The recipe's model answers each row --samples times, as in an evaluation, and the recipe's rewards score them. The
    rows get the columns pass_rate, reward_mean, reward_std and profile, to filter or sort by. If it is stopped, the
    same command continues. Exit codes: 0 written, 1 a reward or a server failed, or memory or disk ran out, 2 nothing
    was started, 3 stopped by a check, 75 interrupted.

    With --base-url a server answers, with its own chat template and numerics; the column profile names it.

    \b
    grpo-run profile recipe.yaml -o rows.jsonl
    """
    asked = RunOptions(**options)
    output = _output(out)
    answered = [f"evaluation.samples={samples}", "evaluation.greedy=false", "evaluation.pass_at=[1]"]
    server = _server(base_url, model, key_variable)
    if server is not None:
        answered.append("generation.use_vllm=false")
    resolution = _on_one_gpu(recipe, asked._replace(overrides=(*asked.overrides, *ONE_PROCESS, *answered)))
    if resolution.refused or resolution.context is None:
        click.echo(redact(findings_text(resolution.findings, resolution.file) + "\n"), err=True)
        click.echo(redact(f"{resolution.file}: {count_text(resolution.findings)}, nothing was started"), err=True)
        return EXIT_NOT_STARTED
    from grpo_recipes.launch.display import busy
    from grpo_recipes.launch.worker_part import part_answer  # only needed to run something
    from grpo_recipes.lock.pinned import complete_plan, with_pinned_code

    of_one = _of_source(plan_of(resolution), source)
    plan = with_pinned_code(_of_training_rows(of_one, _passes(resolution.context), max_rows))
    if server is None:
        _refuse_server(plan)
    else:
        _refuse_turns(plan)
        server["model"] = server["model"] or plan.model.path
    ask_trust(plan, asked.allowed, recipe_files(resolution.context.source))
    with busy("reading model and data"):
        plan = complete_plan(plan, is_code_pinned=True)
    partial, own = f"{output.removesuffix(SUFFIX)}.partial{SUFFIX}", profile_of(plan, _name(server))
    _refuse_other(partial, own)
    request = {"output": output, "partial": partial, "profile": own, "served": server}
    try:
        answer = part_answer(plan, "profile.start", "profile", request, merged_recipe_text(resolution.context.source))
    except KeyboardInterrupt:
        if os.path.exists(partial) and os.path.getsize(partial) > 0:
            click.echo(redact(f"the same command continues with {os.path.relpath(partial)}"), err=True)
        raise
    beside = os.path.dirname(os.path.abspath(recipe)) == os.getcwd()  # a recipe's paths are relative to its folder
    path = out if beside else output
    return print_answer(answer, "profile", lambda shown: profile_text(shown, out, samples, path), as_json=as_json)


def _on_one_gpu(recipe: str, options: RunOptions) -> Resolution:
    """The recipe resolved for one process of this machine, with the errors that matter to a profile."""
    stack = choose_stack(None, trains=True)
    stack = stack._replace(gpus=stack.gpus and stack.gpus[:1])
    resolution = resolve_recipe(recipe, stack, options)
    wanted = None if resolution.context is None else resolution.context.value("launch.gpus_per_node")
    if isinstance(wanted, int) and wanted > 1:
        return _on_one_gpu(recipe, options._replace(overrides=(*options.overrides, "launch.gpus_per_node=1")))
    unsaid = [
        finding
        for finding in resolution.findings
        if finding.rule == UNSAID and not finding.key.endswith("passes.reward")
    ]
    if unsaid and resolution.context is not None and _passes(resolution.context) is None:
        because = next(check_set("", resolution.context)).because
        fix = "--set evaluation.passes.reward=NAME, or evaluation.passes in the recipe"
        raise Refusal.of("the recipe does not say which answers pass", because=because, fix=fix)
    meant = (f for f in resolution.findings if f.rule not in OF_A_TRAINING and (f.rule, f.key) != HELD_OUT)
    relevant = (finding for finding in meant if finding not in unsaid)
    return resolution._replace(findings=tuple(finding for finding in relevant if finding.severity == "error"))


def _passes(context: Context) -> Passes | None:
    """When an answer passes: as the recipe sets it, else as in the deciding set, else by its only reward."""
    if not context.has_section("evaluation"):
        return None
    deciding = next((of_set for _, of_set in held_out_sets(context)), context)
    contexts = (context,) if REWARD in context.settings else (deciding, context)
    for candidate in contexts:
        if (passes := what_passes(candidate)) is not None:
            return Passes(str(passes["reward"]), float(str(passes["at_least"])))
    return None


def _output(out: str) -> str:
    """The absolute path of the output. Raises Refusal if it cannot be written, or exists."""
    output = os.path.abspath(out)
    if not output.endswith(SUFFIX):
        raise Refusal.of(f"-o {out}: the rows are written as JSON lines", fix=f"-o {shlex.quote(out + SUFFIX)}")
    if os.path.lexists(output):
        raise Refusal.of(
            f"-o {out}: it already exists",
            because="profile never overwrites files",
            fix=f"rm {shlex.quote(out)}, or a different -o",
        )
    folder = os.path.dirname(output)
    if not os.path.isdir(folder):
        raise Refusal.of(f"-o {out}: there is no folder {folder}", fix=f"mkdir -p {shlex.quote(folder)}")
    return output


def _server(base_url: str | None, model: str | None, key_variable: str | None) -> dict[str, str | None] | None:
    """The server that replaces the recipe's model, None without --base-url. Raises Refusal."""
    if base_url is None:
        if model is not None or key_variable is not None:
            raise Refusal.of("--model and --key-variable need --base-url", fix="--base-url http://HOST:PORT/v1")
        return None
    from grpo_recipes.schemas.task import ENDPOINT  # needs Pydantic, which no other command does

    if re.fullmatch(ENDPOINT, base_url) is None:
        because = "it takes an http or https address without user, password or query"
        raise Refusal.of(
            "--base-url is not the address of a server", because=because, fix="--base-url http://HOST:PORT/v1"
        )
    return {"base_url": base_url.rstrip("/"), "model": model, "key_variable": key_variable}


def _name(server: dict[str, str | None] | None) -> str | None:
    """The model's name in the column `profile`."""
    return None if server is None else f"{server['model']} at {server['base_url']}"


def _refuse_turns(plan: Plan) -> None:
    """Raises Refusal for a plan with turns that a server alone cannot answer or judge."""
    needs = [
        *(["tools"] if plan.tools else []),
        *(["an environment"] if plan.all_environments else []),
        *(["a rollout"] if plan.rollout is not None else []),
        *(["a reward model"] if any(reward.kind == "model" for reward in plan.rewards) else []),
    ]
    if needs:
        raise Refusal.of(
            f"--base-url: the recipe has {' and '.join(needs)}",
            because="a server gives one answer per prompt, and no model is loaded here",
            fix="a profile without --base-url",
        )


def _of_source(plan: Plan, name: str | None) -> Plan:
    """The plan with the rows of one source of its mixture, and the rewards that judge them. Raises Refusal."""
    names = [source.source_name for source in plan.sources]
    if not names and name is not None:
        raise Refusal.of(f"--source {name}: the recipe has one source", fix="leave it out")
    if not names:
        return plan
    if name not in names:
        message = (
            "a profile answers one source of a mixture" if name is None else f"--source {name}: there is no such source"
        )
        raise Refusal.of(message, because=f"its sources are {', '.join(map(str, names))}", fix=f"--source {names[0]}")
    rewards = tuple(replace(reward, not_of=()) for reward in plan.rewards if name not in reward.not_of)
    config = dict(plan.arguments.GRPOConfig)
    if WEIGHTS in config:
        config[WEIGHTS] = [reward.weight for reward in rewards]
    data, arguments = plan.sources[names.index(name)], replace(plan.arguments, GRPOConfig=config)
    return replace(plan, data=data, sources=(), rewards=rewards, arguments=arguments)


def _of_training_rows(plan: Plan, passes: Passes | None, max_rows: int | None) -> Plan:
    """The plan with an evaluation of its training rows. Raises Refusal if they are not stored anywhere."""
    assert plan.evaluation is not None
    names = [
        *(reward.name for reward in plan.rewards),
        *(environment.name for environment in plan.all_environments.values()),
    ]
    if passes is None and len(names) == len(plan.rewards) == 1 and plan.rewards[0].kind not in ("model", "judge"):
        passes = Passes(names[0], RIGHT)  # of a source with one reward
    if passes is None or (plan.data.source_name is not None and passes.reward not in names):
        message = f"nothing says which answers{f' to {plan.data.source_name}' if plan.data.source_name else ''} pass"
        because = f"its rewards are {', '.join(names)}" + (f", and not {passes.reward}" if passes else "")
        raise Refusal.of(message, because=because, fix=f"--set evaluation.passes.reward={names[0]}, or a different one")
    if plan.data.source == "made":
        raise Refusal.of(
            "the rows of this recipe cannot be profiled",
            because="each run generates them, so there is no file to filter",
            fix="set dataset.path to a file or to a data set of the hub",
        )
    known = [number for number in (plan.data.max_rows, max_rows) if number is not None]
    every: dict[str, Any] = {field.name: None for field in fields(plan.data) if field.name in OF_A_CHOICE}
    data = replace(plan.data, **every, max_rows=min(known, default=None))
    alone = replace(plan.evaluation, data=data, passes=passes, name="", rewards=(), others=())
    return replace(plan, data=data, evaluation=alone)


def _refuse_server(plan: Plan) -> None:
    """Raises Refusal for a plan that generates with a vLLM server."""
    if plan.vllm is not None and plan.vllm.mode == "server":
        raise Refusal.of(
            "a profile does not start a vLLM server",
            because="generation.vllm_mode is server, and a profile runs in a single process",
            fix="--set generation.vllm_mode=colocate, or --set generation.use_vllm=false",
        )


def _refuse_other(partial: str, own: dict[str, object]) -> None:
    """Raises Refusal if the partial output belongs to a different profile."""
    row = first_row(partial) if os.path.exists(partial) else None
    before = profile_in_row(row or {})
    if row is None or (before and before.get(ASKED) == own[ASKED]):
        return
    shown = shlex.quote(os.path.relpath(partial))
    if before is None:
        raise Refusal.of(
            f"{shown} is not a profile",
            because="a profile writes its rows there until all are complete",
            fix="a different -o",
        )
    names = [name for name in ("model", "samples", "sampling") if before.get(name) != own[name]]
    because = [f"{name}: {before.get(name)} there, {own[name]} now" for name in names]
    raise Refusal.of(
        f"{shown} is part of a different profile",
        because=because or "data, prompts, rewards or the passing condition differ",
        fix=f"rm {shown}, or a different -o",
    )
