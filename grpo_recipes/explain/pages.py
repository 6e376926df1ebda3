"""Maps every finding id to its page: rules, the resolver's and readers' ids, proofs, guards, preflight checks."""

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grpo_recipes.contract.findings.wording import value_text
from grpo_recipes.explain import verdict_meanings
from grpo_recipes.resolve import field_values, inexpressible, schema_findings, stack_findings
from grpo_recipes.resolve.unknown_keys import suggestions
from grpo_recipes.rewards.catalog import shipped_rewards
from grpo_recipes.rules.catalog import rules
from grpo_recipes.yaml import ids as yaml_ids

OTHER_IDS = {
    schema_findings.MISSING_KEY: "A key that has no default is missing.",
    schema_findings.WRONG_TYPE: "A value has the wrong type for its key; nothing is converted silently.",
    schema_findings.OUT_OF_RANGE: "A value is outside its valid range.",
    schema_findings.NOT_ONE_OF: "A value is not one of those that the format allows for its key.",
    suggestions.UNKNOWN_KEY: "A key is neither part of the format nor a field of the class of its section.",
    suggestions.REMOVED_KEY: "A field once existed and was removed by a release.",
    suggestions.OWNED_KEY: "A GRPOConfig field is under `trl` although it has its own key, or grpo-run sets it.",
    inexpressible.NOT_EXPRESSED: "The target does not support a value: it lacks the field or reads it differently, and"
    " does something else. grpo-run knows what every older release does without a field.",
    field_values.NOT_ALLOWED: "The target's source code does not support a value. Many such values pass"
    " GRPOConfig and fail after loading the model.",
    field_values.WRONG_FIELD_TYPE: "A value has a different type than the target's class declares for its field.",
    field_values.AMBIGUOUS_WORD: "yes, no, on and off are booleans in YAML 1.1 and strings in YAML 1.2.",
    field_values.NO_EFFECT: "A value has no effect, given the others, e.g. vllm_mode without vLLM.",
    stack_findings.NO_FACTS: "A release was not tested: nothing is known of it, or what is known of the tested one.",
}


def known_ids() -> dict[str, str]:
    """Every finding id with its page."""
    pages = {rule.id: rule.page for rule in rules()}
    return {**OTHER_IDS, **yaml_ids.MEANINGS, **MEANINGS, **verdict_meanings.MEANINGS, **pages, **worker_pages()}


@cache
def worker_pages() -> dict[str, str]:
    """The pages of proofs, guards and preflight checks by id, read from the worker's files without importing them."""
    pages = {}
    worker = Path(__file__).parents[1] / "worker"
    rooms = ("proofs", "proofs/before_training", "proofs/of_turns", "guards", "preflight/checks")
    for file in sorted(file for room in rooms for file in (worker / room).glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["ID"]:
                pages[str(ast.literal_eval(node.value))] = ast.get_docstring(tree) or ""
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                match node.decorator_list[0]:
                    case ast.Call(func=ast.Name(id="_before_training"), args=[ast.Constant(value=id_), *_]):
                        pages[str(id_)] = ast.get_docstring(node) or ""
    return pages


MEANINGS: dict[str, str] = {
    "WLD013": "`/dev/shm`, or the memory that a process may lock for InfiniBand, may be too small for NCCL between"
    " GPUs. `doctor`, `preflight` and the start of a run with several GPUs check it, on the machine that trains."
    " NVIDIA recommends 1 GiB and no limit; the defaults of Docker and Kubernetes are 64 MiB and 64 KiB.",
    "WLD014": "A node of the cluster lacks something, as `preflight --on-nodes N` finds: fewer GPUs, a"
    " different release of a package, or no interface with the name in NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME.",
    "STK018": "A library cannot write its cache of compiled or downloaded files: vLLM and flashinfer then fail"
    " at import, and downloads fail. `doctor` and `preflight` warn; a run with vLLM in its"
    " processes does not start.",
    "STK019": "The installed TRL has another trainer than grpo-run relies on: a method is missing, doubled or takes"
    " other arguments. `doctor` compares the source of every TRL, `validate` that of a release that grpo-run does not"
    " know, and a run stops by name before its first step.",
    "STK001": "A --target cannot be read: it is name==version items separated by commas, or a doctor file.",
    "STK002": "A --target names a package that grpo-run does not know.",
    "STK003": "A --target gives an invalid version.",
    "STK005": "A --target names GPUs in an unknown format; known: gpus=8xH100-80GB, gpus=1xMI300X:192GB, gpus=0.",
    "STK004": "The file of a --target cannot be read, or is not what `grpo-run doctor --json` prints.",
    "STK012": "A package of the stack declares a version window that another package violates: pip refuses the"
    " two together (an error), or would if the extra had been requested (a warning).",
    "STK013": "pip allows this combination, but it fails to import or train. Each combination in the table was"
    " run to confirm the failure.",
}


def id_page(word: str) -> str | None:
    """What a rule checks and why, an example with its output, the fix, and the proof; None for an unknown id.

    word: the id, or the name of the shim that the rule requests.
    """
    rule_id = next((rule.id for rule in rules() if f"shims.{word}" in rule.owns), word.upper())
    page = known_ids().get(rule_id)
    if page is None:
        return None
    parts = [f"{rule_id}\n\n{page}"]
    shown = examples().get(rule_id, Example())
    if shown.said:
        where = f", on {shown.stack}" if shown.stack else ""
        parts.append(f"Example{where}:\n\n{_indent(shown.recipe or '# any recipe')}")
        parts.append(_indent(shown.said))
        if shown.fixed:
            parts.append(f"Fixed:\n\n{_indent(shown.fixed)}")
    rule = next((each for each in rules() if each.id == rule_id), None)
    if rule is not None and rule.applies_to:
        parts.append("For: " + ", ".join(f"{name} {window}" for name, window in rule.applies_to.items()))
    if shown.proved_by:
        parts.append(f"Proved by: {shown.proved_by}")
    return "\n\n".join(parts)


def reward_page(name: str) -> str | None:
    """What a shipped reward gives, the columns it reads and its options with defaults; None for another word."""
    reward = shipped_rewards().get(name)
    if reward is None:
        return None
    lines = [f"rewards: [{{name: {name}}}]", "", reward.doc, ""]
    lines += [f"reads: {', '.join(reward.columns)}"] if reward.columns else []
    options = [
        f"{option}: {value_text(list(default) if isinstance(default, tuple) else default)}"
        for option, default in reward.options.items()
    ]
    options += [f"{option} (required)" for option in reward.required if option not in reward.options]
    lines += ["options:", *(f"  {option}" for option in options)] if options else ["it has no options"]
    return "\n".join(lines)


def _indent(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.rstrip("\n").split("\n"))


EXAMPLES = Path(__file__).with_name("examples.json")


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a finding. recipe: the relevant keys, as YAML. stack: what is special about the stack, "" for
    nothing.

    said: the finding, or the line of the plan. fixed: the keys after the fix, "" without one. proved_by: the test file
    that demonstrates it on the real library, or why the rule is stricter, "" for neither.
    """

    recipe: str = ""
    stack: str = ""
    said: str = ""
    fixed: str = ""
    proved_by: str = ""


@cache
def examples() -> Mapping[str, Example]:
    """The examples by id."""
    rows = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return {rule_id: Example(**row) for rule_id, row in rows.items()}
