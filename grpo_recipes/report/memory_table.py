"""What each GPU holds, terms by phases, as lines of text."""

from collections.abc import Mapping

GIB = 2**30


def memory_table(phases: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for each term and one for their sum, a column for each phase, in GiB. phases: bytes by term, by phase."""
    names = list(dict.fromkeys(name for terms in phases.values() for name in terms))
    rows = [["GiB", *phases]]
    for name in names:
        sizes = [terms.get(name) for terms in phases.values()]
        rows.append([name, *("-" if size is None else f"{size / GIB:.2f}" for size in sizes)])
    rows.append(["all", *(f"{sum(terms.values()) / GIB:.2f}" for terms in phases.values())])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [
        row[0].ljust(widths[0])
        + "".join(cell.rjust(width + 2) for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
