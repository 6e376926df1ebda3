"""What each GPU holds, terms by phases, as lines of text."""

from collections.abc import Mapping

from grpo_recipes.contract.findings.wording import aligned

GIB = 2**30


def memory_table(phases: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each term and one for their sum, a column for each phase, in GiB. phases: bytes by term, by phase."""
    names = list(dict.fromkeys(name for terms in phases.values() for name in terms))
    rows = [["GiB", *phases]]
    for name in names:
        sizes = [terms.get(name) for terms in phases.values()]
        rows.append([name, *("-" if size is None else f"{size / GIB:.2f}" for size in sizes)])
    rows.append(["all", *(f"{sum(terms.values()) / GIB:.2f}" for terms in phases.values())])
    return aligned(rows, right=range(1, len(rows[0])))
