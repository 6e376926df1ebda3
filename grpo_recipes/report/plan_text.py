"""A plan as text: value, origin, reason, the experiment first."""

import json

from grpo_recipes.plan import Plan, PlannedSetting
from grpo_recipes.trust.redact import redact

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
    ]
    for kind, title in TITLES.items():
        rows = [row for row in plan.settings if row.kind == kind]
        if rows:
            lines += ["", title, *_table(rows)]
    if plan.findings:
        lines += ["", "said", *(f"  {finding}" for finding in plan.findings)]
    return redact("\n".join(lines))


def _table(rows: list[PlannedSetting]) -> list[str]:
    cells = [(row.key, _short(row.value), row.origin, f"   {row.why}" if row.why else "") for row in rows]
    widths = [min(48, max(len(cell[column]) for cell in cells)) for column in range(3)]
    return [
        f"  {key:<{widths[0]}}  {value:<{widths[1]}}  {origin:<{widths[2]}}{why}".rstrip()
        for key, value, origin, why in cells
    ]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= 48 else text[:45] + "..."
