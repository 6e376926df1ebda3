"""How a run ended, in words for a person."""

import os
import re
import shlex
from collections.abc import Mapping

from grpo_recipes.contract.event_words import clock
from grpo_recipes.contract.metrics import (
    METRICS_FILE,
    change_text,
    evaluation_text,
    mapping,
    mappings,
    number,
    read_all,
)
from grpo_recipes.contract.run_record import RunRecord, launches_text
from grpo_recipes.contract.secrets.redact import redact

_SHOWN_EXAMPLES = 3
_LONGEST_TEXT = 72
_AVERAGED_STEPS = 10
_WIDTH = 100
# The messages of the worker that name data or a reward.
_OF_INPUTS = re.compile(r"(?:no )?(?:dataset|evaluation|reward)\b")


def summary(record: RunRecord, folder: str | None = None) -> str:
    """The closing lines of a run, each ended by a newline; what is not known is left out.

    folder: the run folder, whose metrics.jsonl tells the first reward; the record has the last alone.
    """
    named = "RUNDIR" if folder is None else shlex.quote(folder)
    lines = [status_line(record)]
    if record.message:
        told = record.message.replace("grpo-run RUNDIR", f"grpo-run {named}")
        lines += [f"  {line}" for line in told.splitlines()]
    lines += _server_lines(record.vllm_server)
    lines += _proof_lines(record.proofs)
    lines += _guard_lines(record.guards)
    lines += _time_lines(record)
    lines += _reward_lines(record, folder)
    lines += _evaluation_lines(record)
    lines += _next_lines(record, named)
    return redact("\n".join(lines) + "\n")


def status_line(record: RunRecord) -> str:
    """How a run stands, on one line: "interrupted at step 3 of 9"."""
    if record.step is None:
        return record.status
    of = f" of {record.max_steps}" if record.max_steps is not None else ""
    return f"{record.status} at step {record.step}{of}"


def peak_text(record: RunRecord) -> str:
    """The phase that held most, beside its estimate, "" where nothing was measured."""
    known = {phase: seen for phase, seen in record.memory.items() if isinstance(seen, Mapping)}
    sizes = {phase: size for phase, seen in known.items() if (size := number(seen, "measured")) is not None}
    if not sizes:
        return ""
    phase = max(sizes, key=lambda name: sizes[name])
    estimated = number(known[phase], "estimated")
    beside = "" if estimated is None else f" (estimated {estimated / 2**30:.1f})"
    return f"most memory {sizes[phase] / 2**30:.1f} GiB in {phase}{beside}"


def _time_lines(record: RunRecord) -> list[str]:
    parts = []
    if record.train_wall_s is not None:
        parts.append(f"{clock(record.train_wall_s)} by the clock")
    if record.train_cpu_s is not None:
        parts.append(f"{record.train_cpu_s:.1f} CPU seconds")
    if parts and (launches := launches_text(record)):
        parts[-1] += f" {launches}"
    each, share = (number(record.duration or {}, key) for key in ("seconds_per_step", "generation_share"))
    if each is not None:
        parts.append(f"{each:.3g} s a step" + (f", {share:.0%} of it generation" if share is not None else ""))
    return [f"  training    {', '.join(parts)}"] if parts else []


def _proof_lines(proofs: object) -> list[str]:
    """What the proofs of the first step saw; one that failed is in the message, one that is open says so itself."""
    shown = [str(proof.get("shown")) for proof in mappings(proofs) if proof.get("ok") is not False]
    lines: list[str] = []
    for words in shown:
        if lines and len(lines[-1]) + 3 + len(words) <= _WIDTH:
            lines[-1] += f" · {words}"
        else:
            lines.append(words)
    return [f"  {'proofs' if place == 0 else '':<11} {line}" for place, line in enumerate(lines)]


def _server_lines(server: Mapping[str, object] | None) -> list[str]:
    """How often the vLLM server of the run had to be started again, nothing when it never was."""
    restarts = mappings((server or {}).get("restarts"))
    deaths = [f"at step {death.get('step')} it {death.get('how')}" for death in restarts]
    return [f"  vLLM server started again: {'; '.join(deaths)}"] if deaths else []


def _guard_lines(guards: object) -> list[str]:
    """The guards that spoke, each with when and how often; the one that stopped the run is in the message."""
    lines: list[str] = []
    for guard in mappings(guards):
        if guard.get("action") == "stop":
            continue
        words = f"{guard.get('name')} {guard_span(guard)}"
        lines.append(f"  {'guards' if not lines else '':<11} {words}; grpo-run explain {guard.get('id')}")
    return lines


def guard_span(guard: Mapping[str, object]) -> str:
    """When a guard spoke: "from step 10 on, 3 times up to step 30"."""
    first, last, count = (number(guard, key) for key in ("first_step", "last_step", "count"))
    span = "" if first is None else f"from step {first:.0f} on"
    return span if count in (None, 1) or last is None else f"{span}, {count:.0f} times up to step {last:.0f}"


def _reward_lines(record: RunRecord, folder: str | None) -> list[str]:
    """The mean reward of the first and the last steps that generated something; one step alone is noise."""
    events = read_all(os.path.join(folder, METRICS_FILE)) if folder is not None else [record.metrics]
    rewards = [reward for event in events if (reward := _step_reward(event)) is not None]
    if not rewards:
        return []
    if len(rewards) < 4:
        return [f"  reward      {rewards[-1]:.3f} in the last step"]
    count = min(_AVERAGED_STEPS, len(rewards) // 4)
    first, last = (sum(some) / count for some in (rewards[:count], rewards[-count:]))
    steps = f"mean of {count} steps" if count > 1 else "one step each"
    return [f"  reward      {first:.3f} -> {last:.3f} ({steps})"]


def _step_reward(event: Mapping[str, object]) -> float | None:
    return number(event, "reward") if event.get("event", "step") == "step" else None


def _evaluation_lines(record: RunRecord) -> list[str]:
    lines = []
    for when, words in (("before", "before: "), ("after", "after:  "), ("best", "best:   ")):
        event = mapping(record.evaluation, when)
        if not event or (when == "best" and not _is_of_best(record)):
            continue
        step = f", step {event.get('step')}" if when == "best" else ""
        lines.append(f"  held out    {words}{evaluation_text(event)}{step}")
        if (changed := change_text(event)) is not None:
            lines.append(f"  {'':<11} change: {changed}")
    lines += _count_lines(mapping(record.evaluation, "counts"))
    examples = mappings(record.evaluation.get("examples"))[:_SHOWN_EXAMPLES]
    return [*lines, *(["  wrong before, right now:"] if examples else []), *map(_example, examples)]


def _count_lines(counts: Mapping[str, object]) -> list[str]:
    """How many held-out rows were right before and after, if there were any."""
    rows, before, after = (number(counts, key) for key in ("rows", "right_before", "right_after"))
    if not rows or before is None or after is None:
        return []
    shares = [f"{right:.0f} of {rows:.0f} ({right / rows * 100:.1f} %)" for right in (before, after)]
    return [f"  right       {' -> '.join(shares)}"]


def _example(example: Mapping[str, object]) -> str:
    prompt, before, after = (_one_line(example.get(key)) for key in ("prompt", "before", "after"))
    return f"    {prompt}  {before} -> {after}"


def _one_line(value: object) -> str:
    """A text, or the last message of a conversation, on one line; a long one keeps its end."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping):
        value = value[-1].get("content")
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST_TEXT else f"...{text[-_LONGEST_TEXT:]}"


def _next_lines(record: RunRecord, named: str) -> list[str]:
    """The ways on. named: the run folder as it is written in a command."""
    of_step = f", of step {record.final_step}, the best evaluation" if _is_of_best(record) else ""
    lines = []
    if record.final:
        lines.append(f"  {'adapter' if _is_adapter(record.final) else 'model  '}     {record.final}{of_step}")
    if record.checkpoint:
        lines.append(f"  checkpoint  {record.checkpoint}")
    if record.status == "interrupted":
        again = "from its checkpoint" if record.checkpoint else "from its beginning, since nothing was saved"
        lines.append(f"  next        grpo-run {named} --resume continues it {again}")
    elif record.status in ("failed", "stopped"):
        if record.message is not None and _OF_INPUTS.match(record.message):
            lines.append("  next        grpo-run preflight RECIPE tries data and rewards, without the model")
        lines.append("  next        train.log in the run folder has the whole output")
    elif record.final:
        name = "peft.AutoPeftModelForCausalLM" if _is_adapter(record.final) else "transformers.AutoModelForCausalLM"
        lines.append(f"  next        {name}.from_pretrained({record.final!r}) loads it;")
        lines.append("              metrics.jsonl has every step, plan.json every value with its origin")
    return lines


def _is_of_best(record: RunRecord) -> bool:
    """Whether final/ holds the model of an earlier step than the last one."""
    return record.final_step is not None and record.step is not None and record.final_step < record.step


def _is_adapter(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "adapter_config.json"))
