"""Reads and writes run.json: the progress of a run, how it ended and what it measured, with all of its keys."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from grpo_recipes.contract.files.bounded_json import read_mapping
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.integrity.run_folder import record_text
from grpo_recipes.contract.metric_names import PHASE_WORDS
from grpo_recipes.contract.metrics import mapping, number

RECORD_FORMAT = 1
RECORD_FILE = "run.json"
STATUSES = frozenset({"planned", "running", "completed", "failed", "stopped", "interrupted"})
UNKNOWN = "unknown"
OTHERS = "others"
"""In `evaluation`: the figures of each held-out set that does not decide, by name."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The content of run.json; None is unknown.

    status: running, completed, failed, stopped or interrupted; unknown for anything else. started, ended: ISO 8601.
    message: why it ended, for a person; findings: the same as data, unless a signal ended it.
    checks: comparisons before the first step, each with the id of its proof, name, plan, live and ok.
    proofs: observations of the first step, each with id, name, ok (None: not seen yet) and shown, a text.
    guards: those that acted, each with id, name, action, first_step, last_step, count and its last value;
    guards_not_seen: names of those without data.
    evaluation: {"before", "warm_start": after it, "latest", "after": figures, "counts", "examples"}, of rows with
    images also {"blanked": figures of the last step with grey ones, and "by_images": what their own add}, with
    keep_best or stop_after {"best": figures, "evaluations_since_best", "chosen_from": the steps that were compared,
    "cross_validated": figures on rows that did not choose the step, "ended_early": {"step", "max_steps", "because"}};
    of several sets that of the one that decides, with "others": {name: the same}, and figures have "set": the name.
    Figures: {"step", "count" of rows, "without_score": completions to which a judge gave none, "without_reward": those
    without any, "without": by reward, those of the others that lack it, "greedy", "reward", "rewards", "pass_at",
    "intervals": [low, high] of each and how they were made, "change": since step 0, "change_since_warm_start", with
    intervals}.
    vllm_server: {"restarts"}: each with time, step and how the server died; None without a server.
    metrics: figures of the whole run. trend: {"first", "last", "error", "steps"} of each figure; see run_verdict.py.
    final, checkpoint: folders, relative to the run folder or absolute. final_step: the step whose weights are in final,
    0 for the warm start's.
    memory: by the phase of a plan's memory, and "evaluation", the most bytes of any process, and of the first one alone
    until the training ends: {"measured", "reserved": by torch of a GPU, "estimated": by the plan, "counter": what
    measured}; see worker/memory/phase_peaks.py.
    verified: data, model and template as the worker found them before the launch; see worker/_shared/verified.py.
    resumed: messages about the checkpoint it resumed from. shims: the patches that were applied, with their effect.
    generation_config_ignored: values in the model's generation_config.json that the recipe does not use.
    slurm_job: the id of the run's job, None outside of Slurm.
    begun_anew: the run folder in which it was restarted with half the micro-batch, None if it was not.
    warm_start: {"step": the last one of it, "first_loss", "last_loss", "seconds", "rows": that were read for it,
    "left_out": how many of them it cannot train}; None for a run without one.
    launches: number of starts, above 1 with --resume. memory, train_cpu_s (CPU seconds of all training threads, None if
    a launch was killed) and train_wall_s (seconds by the clock) are totals over all launches.
    duration: from the 20th step on, {"steps": that this launch trained, "seconds_per_step": their median, without
    evaluations, "shares": {phase: of the time, largest first}, "advice": what would make steps faster, each a
    sentence, "estimated_end": of the last step}.
    phases: of the start of this launch, each with name, began, a Unix time, and seconds, None while it lasts; the first
    step ends the last one. trackers: the run's id in each service, so that --resume continues it there.
    """

    run: int = RECORD_FORMAT
    status: str = "running"
    step: int | None = None
    max_steps: int | None = None
    started: str | None = None
    ended: str | None = None
    exit_code: int | None = None
    message: str | None = None
    findings: list[object] | None = None
    checks: list[object] | None = None
    proofs: list[object] | None = None
    guards: list[object] | None = None
    guards_not_seen: list[object] | None = None
    vllm_server: dict[str, object] | None = None
    evaluation: dict[str, object] = field(default_factory=dict)
    metrics: dict[str, object] = field(default_factory=dict)
    trend: dict[str, object] = field(default_factory=dict)
    final: str | None = None
    final_step: int | None = None
    checkpoint: str | None = None
    launches: int | None = None
    train_cpu_s: float | None = None
    train_wall_s: float | None = None
    duration: dict[str, object] | None = None
    phases: list[object] | None = None
    trackers: dict[str, object] | None = None
    memory: dict[str, object] = field(default_factory=dict)
    verified: dict[str, object] | None = None
    resumed: list[object] | None = None
    shims: dict[str, object] | None = None
    generation_config_ignored: list[object] | None = None
    slurm_job: str | None = None
    begun_anew: str | None = None
    warm_start: dict[str, object] | None = None

    @property
    def is_queued_work(self) -> bool:
        """Whether a job queue started the run and may restart it on any machine."""
        return self.slurm_job is not None


def launches_text(record: RunRecord) -> str:
    """A suffix for totals over all launches, "" for a single one."""
    return f"in {record.launches} launches" if record.launches is not None and record.launches > 1 else ""


def time_shares(record: RunRecord) -> list[tuple[str, float]]:
    """The parts of a step and their shares of its time, largest first; empty if they were not measured."""
    shares = mapping(record.duration or {}, "shares")
    known = [(word, share) for phase, word in PHASE_WORDS.items() if (share := number(shares, phase)) is not None]
    return sorted(known, key=lambda part: -part[1])


def peak_text(record: RunRecord) -> str:
    """The phase with the highest memory, with its estimate; "" if nothing was measured."""
    known = {phase: figures for phase, figures in record.memory.items() if isinstance(figures, Mapping)}
    sizes = {phase: size for phase, figures in known.items() if (size := number(figures, "measured")) is not None}
    if not sizes:
        return ""
    phase = max(sizes, key=lambda name: sizes[name])
    estimated = number(known[phase], "estimated")
    beside = "" if estimated is None else f" (estimated {estimated / 2**30:.1f})"
    return f"peak memory {sizes[phase] / 2**30:.1f} GiB in {phase}{beside}"


def warm_start_text(record: RunRecord) -> str:
    """The steps of the warm start, its losses and its time; "" for a run without one."""
    known = record.warm_start or {}
    step, first, last, seconds = (number(known, key) for key in ("step", "first_loss", "last_loss", "seconds"))
    if step is None or first is None or last is None:
        return ""
    left_out = number(known, "left_out")
    rows = "" if not left_out else f"{left_out:.0f} row{'s' * (left_out != 1)}"
    more = f", without {rows} whose answer generation could not give" if rows else ""
    return f"{step:.0f} steps, loss {first:.3g} -> {last:.3g}{'' if seconds is None else f', {seconds:.3g} s'}{more}"


KEYS = frozenset(RunRecord.__dataclass_fields__)


def read_record(folder: str) -> RunRecord | None:
    """The record of a run folder, None if there is no readable one.

    Unknown keys and values of a wrong type are left out, and an unknown or missing status becomes "unknown": it is
    printed in many places, where a line break in it could fake a line.
    """
    content = read_mapping(Path(folder), RECORD_FILE)
    if content is None:
        return None
    known = {key: value for key, value in content.items() if _is_of_its_kind(key, value)}
    if known.get("status") not in STATUSES:
        known["status"] = UNKNOWN
    return RunRecord(**known)


def write_record(folder: str, record: RunRecord) -> None:
    """Writes run.json atomically: a reader sees the old file or the new one. Raises OSError."""
    _write_keys(folder, dataclasses.asdict(record))


def amend_record(folder: str, changes: Mapping[str, object]) -> RunRecord:
    """Sets some keys of run.json, keeps all others, including unknown ones, and returns the new record.

    Raises OSError.
    """
    content = {**dataclasses.asdict(RunRecord()), **(read_mapping(Path(folder), RECORD_FILE) or {}), **changes}
    _write_keys(folder, content)
    return read_record(folder) or RunRecord()


def _is_of_its_kind(key: str, value: object) -> bool:
    if key not in KEYS or isinstance(value, bool):
        return False
    annotation: Any = RunRecord.__annotations__[key]  # such as dict[str, object] | None
    first = get_args(annotation)[0] if isinstance(annotation, UnionType) else annotation
    kind = get_origin(first) or first
    return isinstance(value, int | float if kind is float else kind)


def _write_keys(folder: str, content: Mapping[str, object]) -> None:
    write_whole(Path(folder), RECORD_FILE, record_text(Path(folder), content))


def of_each_set(evaluation: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    """Name and figures of each set in `evaluation`, the deciding one first; "" for one without a name."""
    others = mapping(evaluation, OTHERS)
    return [(deciding_set(evaluation), evaluation), *((name, mapping(others, name)) for name in others)]


def deciding_set(evaluation: Mapping[str, object]) -> str:
    """The name of the deciding set, "" for a single one without a name."""
    events = (mapping(evaluation, moment) for moment in ("after", "latest", "before"))
    return next((name for event in events if isinstance(name := event.get("set"), str)), "")


def evaluation_file(name: str, step: float) -> str:
    """The file of a run folder with a set's completions at a step."""
    return f"evaluation/{name}{'-' if name else ''}step-{step:.0f}.jsonl"


WARM_START, WARM_STEP = "warm_start", "warm_step"
"""The moment after the warm start in `evaluation`, and the key that its events have in metrics.jsonl."""


def warm_start_file(name: str) -> str:
    """The file of a run folder with a set's completions after the warm start."""
    return f"evaluation/{name}{'-' if name else ''}warm-start.jsonl"


def step_text(step: object) -> str:
    """The step of trained weights, in words; step 0 is the end of the warm start."""
    return "the warm start" if step == 0 else f"step {step}"


ON_OUT_OF_MEMORY = "training.on_out_of_memory"
MICRO_BATCH = ("training", "per_device_train_batch_size")


def half_of(record: RunRecord | None) -> int | None:
    """The micro-batch to restart with, None if the run ended differently or its recipe does not ask for it."""
    if record is None or record.status != "failed":
        return None
    for finding in record.findings or []:
        for patch in finding.get("patch") or [] if isinstance(finding, Mapping) else []:
            if patch.get("path") == [*MICRO_BATCH] and isinstance(patch.get("value"), int):
                return int(patch["value"])
    return None
