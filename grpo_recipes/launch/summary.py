"""Formats how a run ended, for a person."""

import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping

from grpo_recipes.contract.event_words import clock
from grpo_recipes.contract.metric_names import GROUPS_LEFT, GROUPS_REDRAWN, PROMPTS_ANSWERED
from grpo_recipes.contract.metrics import (
    METRICS_FILE,
    change_text,
    evaluation_text,
    mapping,
    mappings,
    number,
    read_all,
    reward_as_drawn,
)
from grpo_recipes.contract.run_record import (
    WARM_START,
    RunRecord,
    deciding_set,
    launches_text,
    of_each_set,
    step_text,
    time_shares,
    warm_start_text,
)
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.contract.secrets.redact import redact

_MOMENTS = ("before", WARM_START, "after", "best", "blanked")
_WORDS = ("before: ", "warm:   ", "after:  ", "best:   ", "grey:   ")
_SHOWN_EXAMPLES = 3
_LONGEST_TEXT = 72
_AVERAGED_STEPS = 10
_WIDTH, _HEAD = 100, 14
_UNBROKEN = "\x1f"
"""Replaces a space at which lines must not break; occurs in no name."""
# Messages of the worker that name data or a reward.
_OF_INPUTS = re.compile(r"(?:no )?(?:dataset|evaluation|reward)\b")


def summary(record: RunRecord, folder: str | None = None, width: int = _WIDTH) -> str:
    """The closing lines of a run, each with a newline; unknown values are left out.

    First the conclusions and results, then the files, the next commands and the proofs. folder: the run folder, whose
    metrics.jsonl has the first reward; the record only has the last. width: columns; words are not broken.
    """
    named = "RUNDIR" if folder is None else shlex.quote(folder)
    lines = [status_line(record)]
    if record.message:
        message = record.message.replace("grpo-run RUNDIR", f"{_program()} {named}")
        lines += [f"  {line}" for line in message.splitlines()]
    rows = [*_verdict_rows(record, named), *_held_out_rows(record)]
    lines += _table(rows, width)
    lines += _example_lines(record)
    rows = [*_server_rows(record.vllm_server), *_guard_rows(record.guards), *_step_rows(record, folder)]
    rows += [*_time_rows(record), *_place_rows(record), *_next_rows(record, named), *_proof_rows(record.proofs)]
    lines += _table(rows, width)
    return redact("\n".join(lines) + "\n")


def _program() -> str:
    """What starts grpo-run in a shell: its path if the name starts a different program, or nothing."""
    own, named = sys.argv[0], shutil.which("grpo-run")
    is_by_name = named is not None and os.path.realpath(named) == os.path.realpath(own)
    return "grpo-run" if is_by_name or os.path.basename(own) != "grpo-run" else shlex.quote(own)


def _table(rows: list[tuple[str, str]], width: int) -> list[str]:
    """Each text after its heading, wrapped so that no word or command is broken."""
    return [
        line.replace(_UNBROKEN, " ")
        for head, text in rows
        for line in textwrap.wrap(
            text,
            max(width, 2 * _HEAD),
            initial_indent=f"  {head}".ljust(_HEAD),
            subsequent_indent=" " * _HEAD,
            break_long_words=False,
            break_on_hyphens=False,
        )
    ]


def _unbroken(text: str) -> str:
    """A text that must stay on one line, such as a command or a path."""
    return text.replace(" ", _UNBROKEN)


def _verdict_rows(record: RunRecord, named: str) -> list[tuple[str, str]]:
    """The conclusions about the run, the reasons, and what to do."""
    rows = []
    for index, verdict in enumerate(verdicts(record)):
        rows.append(("" if index else "verdict", f"{verdict.text} [{verdict.id}]"))
        rows += [("", line) for line in verdict.because]
        command = _unbroken(f"{_program()} report {named}")
        rows += [("", f"fix: {verdict.fix}".replace("grpo-run report RUNDIR", command))] if verdict.fix else []
    return rows


def status_line(record: RunRecord) -> str:
    """The status of a run on one line: "interrupted at step 3 of 9"."""
    if record.step is None:
        return record.status
    of = f" of {record.max_steps}" if record.max_steps is not None else ""
    return f"{record.status} at step {record.step}{of}"


def _time_rows(record: RunRecord) -> list[tuple[str, str]]:
    parts = []
    if record.train_wall_s is not None:
        parts.append(f"{clock(record.train_wall_s)} elapsed")
    if record.train_cpu_s is not None:
        parts.append(f"{record.train_cpu_s:.1f} CPU seconds")
    if parts and (launches := launches_text(record)):
        parts[-1] += f" {launches}"
    if (each := number(record.duration or {}, "seconds_per_step")) is not None:
        parts.append(f"{each:.3g} s per step")
    advice = (record.duration or {}).get("advice")
    rows = [("warm start", text)] if (text := warm_start_text(record)) else []
    rows += [("training", ", ".join(parts))] if parts else []
    if shares := ", ".join(f"{share:.0%} {word}" for word, share in time_shares(record)):
        rows.append(("step time", shares))
    return [*rows, *(("", str(line)) for line in (advice if isinstance(advice, list) else []))]


def _proof_rows(proofs: object) -> list[tuple[str, str]]:
    """The results of the first step's proofs; failed ones are in the message, open ones say so themselves."""
    shown = [str(proof.get("shown")) for proof in mappings(proofs) if proof.get("ok") is not False]
    return [("proofs", " · ".join(shown))] if shown else []


def _server_rows(server: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """The number of restarts of the run's vLLM server, nothing if there were none."""
    restarts = mappings((server or {}).get("restarts"))
    deaths = [f"at step {death.get('step')} it {death.get('how')}" for death in restarts]
    return [("vLLM", f"server restarted: {'; '.join(deaths)}")] if deaths else []


def _guard_rows(guards: object) -> list[tuple[str, str]]:
    """The guards that acted, with time and count; the one that stopped the run is in the message."""
    rows: list[tuple[str, str]] = []
    for guard in mappings(guards):
        if guard.get("action") == "stop":
            continue
        words = f"{guard.get('name')} {guard_span(guard)}"
        rows.append(("" if rows else "guards", f"{words}; {_program()} explain {guard.get('id')}"))
    return rows


def guard_span(guard: Mapping[str, object]) -> str:
    """When a guard acted: "since step 10, 3 times up to step 30"."""
    first, last, count = (number(guard, key) for key in ("first_step", "last_step", "count"))
    span = "" if first is None else f"since step {first:.0f}"
    return span if count in (None, 1) or last is None else f"{span}, {count:.0f} times up to step {last:.0f}"


def _step_rows(record: RunRecord, folder: str | None) -> list[tuple[str, str]]:
    """Summarizes the steps: the mean reward of the first and the last, and the redrawn groups."""
    rewards, drawn = list[float](), list[list[float]]()
    for event in read_all(os.path.join(folder, METRICS_FILE)) if folder is not None else [record.metrics]:
        if (reward := _step_reward(event)) is not None:
            rewards.append(reward)
        message = [number(event, name) for name in (PROMPTS_ANSWERED, GROUPS_REDRAWN, GROUPS_LEFT)]
        known = [value for value in message if value is not None]
        drawn += [known] if len(known) == len(message) else []
    return [*_reward_rows(rewards), *_resampling_rows(drawn)]


def _reward_rows(rewards: list[float]) -> list[tuple[str, str]]:
    """The mean reward of the first and last steps that generated; a single step is too noisy."""
    if not rewards:
        return []
    if len(rewards) < 4:
        return [("reward", f"{rewards[-1]:.3f} in the last step")]
    count = min(_AVERAGED_STEPS, len(rewards) // 4)
    first, last = (sum(some) / count for some in (rewards[:count], rewards[-count:]))
    steps = f"mean of {count} steps" if count > 1 else "one step each"
    return [("reward", f"{first:.3f} -> {last:.3f} ({steps})")]


def _resampling_rows(drawn: list[list[float]]) -> list[tuple[str, str]]:
    """The average number of redrawn prompts per generation, and of groups left over. Nothing without resampling."""
    if not drawn:
        return []
    answered, redrawn, left = (sum(values) / len(drawn) for values in zip(*drawn, strict=True))
    trained = answered - redrawn
    share = f"{redrawn / answered:.0%} of the prompts, {redrawn:.1f} in addition to the {trained:.0f} of a generation"
    return [("resampled", f"{share}; {left / trained:.0%} of the groups trained without variance")]


def _step_reward(event: Mapping[str, object]) -> float | None:
    return reward_as_drawn(event) if event.get("event", "step") == "step" else None


def _held_out_rows(record: RunRecord) -> list[tuple[str, str]]:
    sets = of_each_set(record.evaluation)
    return [row for name, known in sets for row in _rows_of_set(record, name, known)]


def _rows_of_set(record: RunRecord, name: str, known: Mapping[str, object]) -> list[tuple[str, str]]:
    rows = []
    head = f"{name}  " if name else ""
    for when, words in zip(_MOMENTS, _WORDS, strict=True):
        event = mapping(known, when)
        if not event or (when == "best" and not _is_of_best(record)):
            continue
        decides = deciding_set(record.evaluation)
        step = {"best": f", {step_text(event.get('step'))}", "blanked": ", with grey images"}.get(when, "")
        step += f", chosen by {decides}" if when == "best" and name != decides else ""
        rows.append(("held out", f"{head}{words}{evaluation_text(event)}{step}"))
        if (changed := change_text(event)) is not None:
            rows.append(("", f"{head}change: {changed}"))
    if apart := mapping(known, "cross_validated"):
        rows.append(("", f"{head}on rows that did not choose the step: {evaluation_text(apart)}"))
    counts = mapping(known, "counts")
    total, before, after = (number(counts, key) for key in ("rows", "right_before", "right_after"))
    if total and before is not None and after is not None:
        shares = [f"{right:.0f} of {total:.0f} ({right / total * 100:.1f} %)" for right in (before, after)]
        by = f", by {counts['by']}" if isinstance(counts.get("by"), str) else ""
        rows.append(("right", f"{head}{' -> '.join(shares)}{by}"))
    return rows


def _example_lines(record: RunRecord) -> list[str]:
    lines = []
    for name, known in of_each_set(record.evaluation):
        examples = mappings(known.get("examples"))[:_SHOWN_EXAMPLES]
        of_set = f" ({name})" if name else ""
        lines += [*([f"  wrong before, right now{of_set}:"] if examples else []), *map(_example, examples)]
    return lines


def _example(example: Mapping[str, object]) -> str:
    prompt, before, after = (_one_line(example.get(key)) for key in ("prompt", "before", "after"))
    return f"    {prompt}  {before} -> {after}"


def _one_line(value: object) -> str:
    """A text, or a conversation's last message, on one line; a long one keeps its end."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_TEXT else f"...{text[-_LONGEST_TEXT:]}"


def _place_rows(record: RunRecord) -> list[tuple[str, str]]:
    of_step = f", of {step_text(record.final_step)}, the best evaluation" if _is_of_best(record) else ""
    rows = []
    if record.final:
        rows.append(("adapter" if _is_adapter(record.final) else "model", f"{_unbroken(record.final)}{of_step}"))
    if record.checkpoint:
        rows.append(("checkpoint", _unbroken(record.checkpoint)))
    return rows


def _next_rows(record: RunRecord, named: str) -> list[tuple[str, str]]:
    """The next commands. named: the run folder as a command writes it."""
    if record.status == "interrupted":
        again = "from its checkpoint" if record.checkpoint else "from the start, since nothing was saved"
        lines = [f"{_program()} {named} --resume continues it {again}"]
    elif record.status in ("failed", "stopped"):
        is_of_inputs = record.message is not None and _OF_INPUTS.match(record.message)
        lines = [f"{_program()} preflight RECIPE tries data and rewards, without the model"] if is_of_inputs else []
        lines.append("train.log in the run folder has the whole output")
    elif record.final:
        longer = 2 * (record.max_steps or record.step or 1)
        commands = {
            f"{_program()} report {named}": "shows curves, completions and proofs on a page",
            f"{_program()} generate {named} PROMPT": "answers with the trained model",
            f"{_program()} export {named} -o FOLDER": "writes the whole model, or only the adapter with --adapter",
            f"{_program()} {named} --extend training.max_steps={longer}": "continues the training",
        }
        lines = [f"{_unbroken(command)} {does}" for command, does in commands.items()]
    else:
        lines = []
    return [("" if index else "next", text) for index, text in enumerate(lines)]


def _is_of_best(record: RunRecord) -> bool:
    """Whether final/ holds the model of an earlier step than the last one."""
    return record.final_step is not None and record.step is not None and record.final_step < record.step


def _is_adapter(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "adapter_config.json"))
