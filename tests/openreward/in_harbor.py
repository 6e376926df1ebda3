"""What the worker makes of HarborSpec, in Harbor's own Python: `python in_harbor.py REPOSITORY SUITE`; prints JSON."""

import json
import sys

sys.path.insert(0, sys.argv[1])

from grpo_recipes.contract.tasks import HARBOR
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker._shared.task_specs import class_of_spec, close_specs, rows_of

SUITE = sys.argv[2]


def refused(act) -> list[str]:
    try:
        act()
    except Refused as refusal:
        (finding,) = refusal.findings
        return [finding.message, *finding.because]
    return []


config = {"dataset": SUITE, "environment_type": "e2b"}
(row,) = rows_of(HARBOR, config)
own = class_of_spec(HARBOR, config)
task = own()
try:
    task.reset(**row)
    raised = ""
except BaseException as problem:
    raised = f"{type(problem).__name__}: {problem}"
close_specs()
found = {
    "row": row,
    "tools": [name for name in dir(own) if not name.startswith("_")],
    "told": own.bash.__doc__,
    "reset": raised,
    "without docker": refused(lambda: class_of_spec(HARBOR, {"dataset": SUITE})),
    "without tasks": refused(lambda: rows_of(HARBOR, {"dataset": f"{SUITE}/nothing"})),
}
print(json.dumps(found))
