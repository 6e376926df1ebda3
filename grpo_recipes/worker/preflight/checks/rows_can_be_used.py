"""The rows can be loaded, and each fills the templates of the recipe.

What: preflight loads the data as a run does, and renders every row, or 100,000 spread evenly over more. This finds
changed files, missing columns, a null in a template, and a column that TRL uses itself.
Why: a run would fail at the first such row minutes later, after loading the model.
Fix: give missing values a default, as in "{{ answer or '' }}"; or leave such rows out of the file.
Example: dataset.prompt: row 3 cannot fill the template, because an expression in it is null for this row
"""

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.preflight._shared.reward_seen import cut

ID = "PFL001"


def of_refused(stopped: Refused, where: str) -> Finding:
    """Returns the fault for the worker's refusal of a section's rows."""
    finding = stopped.findings[0]
    lines = tuple(line.removeprefix("= ") for line in finding.seen)
    return mistake(finding.message, finding.path or (where,), lines + finding.because, finding.fix, rule=ID)


def of_problem(problem: Exception, path: str, where: str) -> Finding:
    """Returns the fault for data that the library cannot load, with the first cause, which datasets wraps."""
    while problem.__cause__ is not None and isinstance(problem.__cause__, Exception):
        problem = problem.__cause__
    because = (f"{type(problem).__name__}: {cut(str(problem), 300)}",)
    return mistake(f"{where}: {path} cannot be loaded", (where, "path"), because, rule=ID)
