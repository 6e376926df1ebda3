"""Plans all runs of a sweep before the first one starts, each as `grpo-run RECIPE --set` does."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from grpo_recipes.cli.launching import Ready, prepare_run
from grpo_recipes.cli.options import RunOptions, choose_stack
from grpo_recipes.cli.resolving import resolve_recipe
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Finding, by_place
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.engines.base import engine_of
from grpo_recipes.lock.pinned import complete_plan, with_pinned_code
from grpo_recipes.render.run_folder import FirstRun, build_folder, first_run, write_run_folder
from grpo_recipes.resolve.resolve import Resolution, plan_of
from grpo_recipes.stack.stack import Stack
from grpo_recipes.sweep.sweep_file import Sweep, SweepRun, run_names, setting_text, write_sweep_file
from grpo_recipes.sweep.variations import Trial
from grpo_recipes.sweep.verdicts import detectable, detectable_over_rows
from grpo_recipes.trust.code import code_parts
from grpo_recipes.trust.folders import consent
from grpo_recipes.yaml.merge import OVERRIDE_FILE

MOST_RUNS = 1000
_NAMED = 3
_SEED = "GRPOConfig.seed"


class PlannedSweep(NamedTuple):
    """The planned runs. findings: of all runs, each reported once. sweep: None if a run is refused.

    ready: one per run of the sweep, in order.
    """

    findings: tuple[Finding, ...]
    sweep: Sweep | None
    ready: tuple[Ready, ...]


def plan_sweep(recipe: str, options: RunOptions, trials: Sequence[Trial], seeds: str) -> PlannedSweep:
    """The runs of a recipe: all settings with the first seed, then all with the second, and so on.

    If several runs train at once on this machine, each is planned for its share of the devices. seeds: as for seeds_of.
    Raises Refusal for unreadable seeds, and for too many runs.
    """
    stack = choose_stack(options.target, trains=options.trains)
    planned = _plan_trials(recipe, stack, options, trials, seeds)
    shares = [] if stack.declared else shares_of([run.plan for run in planned.ready] if planned.sweep else [])
    if len(shares) < 2 or not shares[0]:
        return planned
    with limit_devices(shares[0]):
        return _plan_trials(recipe, choose_stack(None, trains=True), options, trials, seeds)


def _plan_trials(recipe: str, stack: Stack, options: RunOptions, trials: Sequence[Trial], seeds: str) -> PlannedSweep:
    seed = _resolution(recipe, stack, options, (), None)
    known = None if seed.context is None else seed.context.settings.get(_SEED)
    if known is None or known.refused or not isinstance(known.value, int):
        return PlannedSweep(seed.findings, None, ())
    chosen = seeds_of(seeds, known.value)
    if len(trials) * len(chosen) > MOST_RUNS:
        raise Refusal.of(
            f"{len(trials) * len(chosen):,} runs exceed a sweep's limit of {MOST_RUNS:,}",
            because=f"{len(trials):,} settings with {len(chosen):,} seeds each",
            fix="fewer values or seeds, or --trials 10",
        )
    places = [(index, seed) for seed in chosen for index in range(len(trials))]
    resolutions = [_resolution(recipe, stack, options, trials[index], seed) for index, seed in places]
    findings = merge_findings(
        (setting_text(trials[index]), _as_written(resolution.findings, trials[index]))
        for (index, _), resolution in zip(places, resolutions, strict=True)
    )
    if any(resolution.refused for resolution in resolutions):
        return PlannedSweep(findings, None, ())
    ready = tuple(map(prepare_run, resolutions))
    base = _resolution(recipe, stack, options, (), chosen[0])
    experiments = [_bare(run.plan) for run in ready[: len(trials)]]
    bare_base = None if base.refused else _bare(plan_of(base))
    names = run_names([(trials[index], seed) for index, seed in places])
    sweep = Sweep(
        recipe=str(ready[0].plan.recipe_file),
        settings=tuple(trials),
        seeds=chosen,
        runs=tuple(SweepRun(name, *pair) for name, pair in zip(names, places, strict=True)),
        base=experiments.index(bare_base) if bare_base in experiments else None,
    )
    return PlannedSweep(findings, sweep, ready)


def _as_written(findings: Sequence[Finding], trial: Trial) -> list[Finding]:
    """The findings, with the option that gave a varied value."""
    varied = {f"{key}={text}" for key, text in trial}
    return [
        finding._replace(mark=finding.mark._replace(file="--vary"))
        if finding.mark is not None and finding.mark.file == OVERRIDE_FILE and finding.mark.line_text in varied
        else finding
        for finding in findings
    ]


def seeds_of(text: str, first: int) -> tuple[int, ...]:
    """The seeds in --seeds: a count of seeds starting with `first`, or a comma-separated list. Raises Refusal."""
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    is_count = "," not in text
    if not numbers or min(numbers) < (1 if is_count else 0) or len(set(numbers)) != len(numbers):
        raise Refusal.of(
            f"--seeds {text} cannot be read",
            because="it takes the number of seeds, or different seeds with commas",
            fix="--seeds 3, or --seeds 1,2,3; for a single listed seed --seeds 7,",
        )
    return tuple(range(first, first + min(numbers[0], MOST_RUNS + 1))) if is_count else tuple(numbers)


def merge_findings(by_setting: Iterable[tuple[str, Sequence[Finding]]]) -> tuple[Finding, ...]:
    """The findings of many settings: shared ones unchanged, others with a note about their settings."""
    distinct: dict[str, Finding] = {}
    having: dict[str, dict[str, None]] = {}
    settings: dict[str, None] = {}
    for setting, findings in by_setting:
        settings[setting] = None
        for finding in findings:
            # The position of an override differs between settings.
            same = repr(finding._replace(mark=None))
            distinct.setdefault(same, finding)
            having.setdefault(same, {})[setting] = None
    return tuple(
        by_place(_with_settings_note(distinct[same], list(those), len(settings)) for same, those in having.items())
    )


def _with_settings_note(finding: Finding, those: Sequence[str], of: int) -> Finding:
    if len(those) == of:
        return finding
    note = f"with {join_items(those, _NAMED, '; ')}, {len(those)} of {of} settings"
    return finding._replace(notes=(*finding.notes, note))


def _resolution(recipe: str, stack: Stack, options: RunOptions, trial: Trial, seed: int | None) -> Resolution:
    overrides = [*options.overrides, *(f"{key}={text}" for key, text in trial)]
    overrides += [] if seed is None else [f"seed={seed}"]
    return resolve_recipe(recipe, stack, options._replace(overrides=tuple(overrides)))


def _bare(plan: Plan) -> Plan:
    """The plan without the origins of its values, which do not affect the training."""
    return replace(plan, settings=())


def detectable_text(planned: PlannedSweep) -> str | None:
    """The difference that a sweep can detect with its seeds and held-out rows; None for a single setting."""
    assert planned.sweep is not None
    settings, seeds = len(planned.sweep.settings), len(planned.sweep.seeds)
    if settings < 2:
        return None
    if seeds == 1:
        return "one seed cannot tell a difference from noise; use at least --seeds 3"
    deviations = detectable(seeds, settings * (settings - 1) // 2)
    text = (
        f"{seeds} seeds can detect a difference of {deviations:.2g} standard deviations between runs of the same seed"
    )
    evaluations = [run.plan.evaluation for run in planned.ready if run.plan.evaluation is not None]
    known = [n for each in evaluations for n in (each.data.max_rows, each.data.rows) if n is not None]
    if known and (rows := min(known)):
        text += f", and {rows:,} held-out rows one of {detectable_over_rows(rows):.2g} in a reward of 0 to 1"
    return f"{text}; docs/sweep.md has more"


def pin_and_allow_code(planned: PlannedSweep, allowed: Sequence[str]) -> PlannedSweep:
    """The runs with their remote code pinned and allowed. Raises Refusal for code that is not allowed."""
    ready = tuple(replace(run, plan=with_pinned_code(run.plan)) for run in planned.ready)
    parts = {part.sha256: part for run in ready for part in code_parts(run.plan)}
    files = tuple(dict.fromkeys(file for run in ready for file in run.files))
    for line in consent(list(parts.values()), allowed, files):
        click.echo(redact(line), err=True)
    return planned._replace(ready=ready)


def write_sweep(sweep: Sweep, ready: Sequence[Ready], folder: str, *, is_code_pinned: bool) -> str:
    """Writes the folder of a sweep, which must be missing or empty, and returns its absolute path.

    Raises Refusal if it has content or cannot be written.
    """
    with build_folder(folder, "sweep") as (target, building):
        first: FirstRun | None = None
        for run, planned in zip(sweep.runs, ready, strict=True):
            plan = replace(complete_plan(planned.plan, is_code_pinned=is_code_pinned), folder=str(target / run.name))
            scripts = engine_of(plan).files(plan)
            written = write_run_folder(plan, str(building / run.name), planned.recipe_text, scripts, first)
            first = first or first_run(Path(written))
        write_sweep_file(building, sweep)
    return str(target)


def shares_of(plans: Sequence[Plan]) -> list[Mapping[str, str]]:
    """Environment variables, one set per parallel run; the largest run determines how many fit.

    Empty if nothing can be started from here.
    """
    # All plans with the same world need the same devices, and finding them takes a moment.
    kinds = {repr((plan.world, plan.vllm and plan.vllm.server)): plan for plan in plans}
    each: list[list[Mapping[str, str]]] = [list(engine_of(plan).shares(plan)) for plan in kinds.values()]
    return min(each, key=len, default=[])


def shares_to_start(plans: Sequence[Plan]) -> list[Mapping[str, str]]:
    """The shares_of these plans. Raises Refusal if nothing can be started from here."""
    shares = shares_of(plans)
    if not shares:
        raise Refusal.of(
            "a sweep has to start its runs itself",
            because=f"with launch.engine {plans[0].world.engine} a person starts each run with its own commands",
            fix="grpo-run sweep RECIPE --dry-run writes the folders; grpo-run RUNDIR --resume says how to start one",
        )
    return shares


@contextlib.contextmanager
def limit_devices(share: Mapping[str, str]) -> Iterator[None]:
    """Limits this process to the devices of a run with this share."""
    before = {name: os.environ.get(name) for name in share}
    os.environ.update(share)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
