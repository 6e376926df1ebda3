"""Formats a plan as text: value, origin and reason, the experiment first."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from grpo_recipes.contract.findings.wording import align_rows, shorten
from grpo_recipes.contract.plan import Plan, PlannedSetting
from grpo_recipes.contract.plan_sections import Forebear, PlannedMemory, lineage
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.facts.released.requirements import cuda_of, newest_cuda_of
from grpo_recipes.resolve.known_defects import KnownDefect, known_defects
from grpo_recipes.rules._shared.machines import ALWAYS
from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, Stack, from_json_value

SHIMS = "shims."
USES = {
    **dict.fromkeys(ALWAYS, "every run"),
    "peft": "`lora`",
    "bitsandbytes": "`quantization`",
    "deepspeed": "the ZeRO strategies",
    "vllm": "generation.use_vllm: true",
    "liger-kernel": "trl.use_liger_kernel",
    "flash-attn": "model.attn_implementation: flash_attention_2",
    "math-verify": "the reward accuracy",
    "requests": "a vLLM server",
}
"""By package of a stack: the parts of recipes that need it."""

TITLES = {
    "experiment": "experiment (the same on every stack and machine)",
    "machine": "machine",
    "bookkeeping": "bookkeeping",
}


def plan_text(plan: Plan) -> str:
    """The plan for a person, without a final newline."""
    world = plan.world
    lines = [
        f"{plan.name}: {world.num_processes} process{'' if world.num_processes == 1 else 'es'} on {world.device},"
        f" strategy {world.strategy}",
        *(f"  {line}" for line in lineage_lines(lineage(plan.ancestor, plan.extends))),
    ]
    for kind, title in TITLES.items():
        rows = [row for row in plan.settings if row.kind == kind and not row.key.startswith(SHIMS)]
        if rows:
            lines += ["", title, *_table(rows)]
    lines += [*_tools(plan), *_judges(plan)]
    lines += _memory(plan.memory)
    lines += _shims(plan)
    lines += _releases(plan.expressible)
    if plan.findings:
        lines += ["", "said", *(f"  {finding}" for finding in plan.findings)]
    return redact("\n".join(lines))


def _memory(memory: PlannedMemory | None) -> list[str]:
    """The estimated memory of each GPU by phase, or why it is unknown."""
    if memory is None:
        return []
    peak = memory.peak()
    if peak is None:
        return ["", f"memory unknown: {memory.unknown}"]
    of = "" if memory.gpu_bytes is None else f" of {memory.gpu_bytes / GIB:.1f}"
    verdict = "" if memory.verdict == "unknown" else f", {memory.verdict}"
    where = "process" if memory.gpu_bytes is None else "GPU"
    most = "at most " if any("prompts of at most" in assumption for assumption in memory.assumed) else ""
    estimate = f"estimated memory of each {where}: {most}{peak[1] / GIB:.1f}{of} GiB in {peak[0]}{verdict}"
    assumed = [f"  assumed: {assumption}" for assumption in memory.assumed]
    return ["", estimate, *assumed, *(f"  {row}" for row in memory_table(memory.phases))]


def _tools(plan: Plan) -> list[str]:
    """The tools, environment and rollout of completions; tools in the order in which the model sees them."""
    rows = [
        (
            tool.name,
            tool.target,
            f"{tool.timeout:g} s per call",
            "asynchronous" if tool.is_async else "",
            tool.sha256[:12],
        )
        for tool in plan.tools
    ]
    lines = ["", "tools (what the model can call)", *(f"  {line}" for line in align_rows(rows))] if rows else []
    for code, use in (
        *(
            (environment, f"{key} (one object per completion; the model can call its methods)")
            for key, environment in plan.all_environments.items()
        ),
        (plan.rollout, "rollout (generates the completions)"),
    ):
        lines += [] if code is None else ["", use, f"  {code.name}  {code.target}  {(code.sha256 or '')[:12]}".rstrip()]
    return lines


def _judges(plan: Plan) -> list[str]:
    """The endpoints that text is sent to, what is sent, and the variable whose value goes with it."""
    rows = []
    for reward in (reward for reward in plan.rewards if reward.kind == "judge"):
        key = reward.kwargs["key_variable"]
        sent = f"gets {' '.join(str(reward.kwargs['prompt']).split())}"
        rows.append(
            (reward.name, str(reward.kwargs["model"]), reward.target, f"key of {key}" if key else "no key", sent)
        )
    lines = [f"  {line}" for line in align_rows(rows, most=160)]
    return ["", "judges (sent to an endpoint for each completion)", *lines] if lines else []


def _shims(plan: Plan) -> list[str]:
    """The patches that the run applies, the reasons, and the releases that do not need them."""
    ends = {defect.rule: end_text(defect) for defect in known_defects(from_json_value(plan.stack))}
    rows = [row for row in plan.settings if row.key.startswith(SHIMS)]
    lines = [
        f"  {row.key.removeprefix(SHIMS):<20}  {row.origin}  {'; '.join(filter(None, (row.why, ends.get(row.origin))))}"
        for row in rows
    ]
    return ["", "shims (patches of these releases in the training process)", *lines] if lines else []


def _releases(expressible: Mapping[str, Any] | None) -> list[str]:
    """The releases of TRL that can express the recipe, and what refuses it on the others."""
    if expressible is None:
        return []
    lines = ["", "releases that can express it", f"  trl {expressible['releases'] or 'none'}"]
    for refusal in expressible["refusing"]:
        reasons = ", ".join(f"{reason['key'] or 'the stack'} [{reason['rule']}]" for reason in refusal["reasons"])
        lines.append(f"  not {refusal['releases']}: {reasons}")
    return lines


def _table(rows: list[PlannedSetting]) -> list[str]:
    cells = [(row.key, _short(row.value), row.origin, row.why and f" {row.why}") for row in rows]
    return [f"  {line}" for line in align_rows(cells, most=48)]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shorten(text, 48)


_MADE_OF_IT = {
    "weights": "starts from",
    "merge": "merged from",
    "continue": "continues",
    "extend": "extends",
}


def lineage_lines(runs: Sequence[Forebear]) -> list[str]:
    """The runs, nearest first: "continues second, step 200, plan 7c2a3e5fdaf9, weights bbfc5402b8de"."""
    return [_line(run) for run in runs]


def _line(run: Forebear) -> str:
    name = "".join(letter if letter.isprintable() else "?" for letter in run.name)
    parts = [f"{_MADE_OF_IT.get(run.use, run.use)} {name}", *([f"step {run.step}"] if run.step is not None else [])]
    digests = (("plan", run.plan_sha256), ("weights", run.weights_sha256))
    return ", ".join([*parts, *(f"{what} {digest[:12]}" for what, digest in digests if digest)])


GIB = 2**30


def memory_table(phases: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each term and one for their sum, a column for each phase, in GiB. phases: bytes by term, by phase."""
    names = list(dict.fromkeys(name for terms in phases.values() for name in terms))
    rows = [["GiB", *phases]]
    for name in names:
        sizes = [terms.get(name) for terms in phases.values()]
        rows.append([name, *("-" if size is None else f"{size / GIB:.2f}" for size in sizes)])
    rows.append(["all", *(f"{sum(terms.values()) / GIB:.2f}" for terms in phases.values())])
    return align_rows(rows, right=range(1, len(rows[0])))


def stack_text(stack: Stack) -> str:
    """Python, packages, GPUs and their requirements, one per line. Optional packages only if installed."""
    lines = [f"{'python':<14}{stack.python or 'not known'}"]
    for package, version in stack.packages.items():
        if version is None and package in OPTIONAL_PACKAGES:
            continue
        built_for = _cuda_text(cuda_of(stack)) if package == "torch" and version else ""
        missing = f"not installed{f'; needed by {USES[package]}' if package in USES else ''}"
        lines.append(f"{package:<14}{version or missing}{built_for}")
    if stack.gpus is None:
        why = "" if stack.declared else ": nvidia-smi is missing, fails or takes too long; run it to see why"
        lines.append(f"{'gpus':<14}not known{why}")
    elif not stack.gpus:
        lines.append(f"{'gpus':<14}none")
        if stack.avx512_bf16 is False:
            lines.append(f"{'cpu':<14}no AVX512-BF16: bfloat16 is slower than float32")
    for gpu in stack.gpus or ():
        memory = f", {gpu.memory_gib:.0f} GiB" if gpu.memory_gib is not None else ""
        capability = f", capability {gpu.capability[0]}.{gpu.capability[1]}" if gpu.capability else ""
        lines.append(f"{'gpu':<14}{gpu.name}{memory}{capability}")
    if stack.driver is not None:
        newest = newest_cuda_of(stack.driver)
        lines.append(f"{'driver':<14}{stack.driver}{f', runs CUDA up to {newest}.x' if newest else ''}")
    if stack.gpus:
        lines += _compiling(stack)
    return "\n".join(lines)


def _cuda_text(cuda: str | None) -> str:
    return "" if cuda is None else f", built for CUDA {cuda}" if cuda else ", built without CUDA"


def _compiling(stack: Stack) -> list[str]:
    """What Triton compiles with, one line for each known item."""
    there = {"c compiler": stack.c_compiler, "python.h": stack.python_headers}
    return [f"{name:<14}{'found' if exists else 'not found'}" for name, exists in there.items() if exists is not None]


def defects_text(known: Sequence[KnownDefect]) -> str:
    """Known defects, each with grpo-run's remedy and the nearest releases without it."""
    if not known:
        return "no known defects of these releases"
    lines = ["known defects of these releases; rules are named after what they ensure"]
    for defect in known:
        end = end_text(defect)
        lines += [f"  {defect.rule or '':<6}  {defect.what}", f"          {defect.answer}{'; ' if end else ''}{end}"]
    return "\n".join(lines)


def end_text(defect: KnownDefect) -> str:
    """The releases that end a defect, "" if unknown."""
    if defect.without:
        return f"not with {' or '.join(defect.without)}"
    return f"until {defect.until}" if defect.until else ""
