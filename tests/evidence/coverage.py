"""What the libraries refuse and warn of, and reported mistakes, each with its answer: writes coverage.md.

`python tests/evidence/coverage.py` writes it, `--missing AREA` prints what an area has not answered yet, ready to be
pasted into answers/AREA.yaml. Nothing is imported from the libraries, their source is read.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from known_answers import fault
from library_sites import Site, newest_stack_is_installed, shortest_words, sites_in, walked_sites
from walked import RELEASES, WALKED

FOLDER = Path(__file__).parent
PAGE = FOLDER / "coverage.md"
SHOWN = 110


@dataclass(frozen=True, slots=True)
class Answer:
    """What becomes of one mistake. place and says find a site; both are "" for a lead, which has an id and a what."""

    area: str
    answer: str
    why: str
    place: str = ""
    says: str = ""
    id: str = ""
    what: str = ""

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.area}.yaml: {self.id or f'{self.place} {self.says!r}'}"


@cache
def _read(area: str) -> dict[str, Any]:
    file = FOLDER / "answers" / f"{area}.yaml"
    return (yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader) or {}) if file.exists() else {}


def _entry(area: str, entry: dict[str, Any], **place: str) -> Answer:
    return Answer(area, str(entry.get("answer") or ""), " ".join(str(entry.get("why") or "").split()), **place)


def site_answers() -> list[Answer]:
    """The answers to sites, of all areas."""
    return [
        _entry(area, entry, place=str(entry.get("in", "")), says=str(entry.get("says", "")))
        for area in WALKED
        for entry in _read(area).get("sites") or []
    ]


def lead_answers() -> list[Answer]:
    """The answers to leads, of all areas."""
    return [
        _entry(area, entry, id=str(entry.get("id", "")), what=str(entry.get("what", "")))
        for area in WALKED
        for entry in _read(area).get("leads") or []
    ]


@dataclass(frozen=True, slots=True)
class Matched:
    """answers: per site those that match it. faults: answers that match none or several, sites answered twice."""

    answers: dict[Site, Answer]
    faults: tuple[str, ...]


def matched(answers: Iterable[Answer]) -> Matched:
    """The sites that the answers are for."""
    found: dict[Site, Answer] = {}
    faults = []
    for answer in answers:
        file, _, function = answer.place.partition("::")
        try:
            among = sites_in(file, function)
        except FileNotFoundError:
            among = []
        hits = [site for site in among if answer.says and answer.says in site.text]
        if len(hits) != 1:
            faults.append(f"{answer.name}: matches {len(hits)} statements")
        elif hits[0] in found:
            faults.append(f"{answer.name}: is answered already, by {found[hits[0]].name}")
        else:
            found[hits[0]] = answer
    return Matched(found, tuple(faults))


def unanswered(area: str, answered: Iterable[Site]) -> list[Site]:
    """The walked sites of an area without an answer."""
    known = set(answered)
    return [site for site in walked_sites(WALKED[area]) if site not in known]


def answer_faults() -> list[str]:
    """Answers that name what is not there, or lack a reason; leads without an id, a text, or with an id twice."""
    answers = [*site_answers(), *lead_answers()]
    faults = [f"{answer.name}: {said}" for answer in answers if (said := fault(answer.answer, answer.why))]
    leads = lead_answers()
    faults += [f"{lead.name}: needs an id and a what" for lead in leads if not (lead.id and lead.what)]
    ids = [lead.id for lead in leads]
    return faults + [f"{lead.name}: twice" for lead in leads if ids.count(lead.id) > 1]


def _cell(text: str) -> str:
    joined = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    return joined if len(joined) <= SHOWN else f"{joined[:SHOWN].rstrip()} …"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(*head), _row(*("---" for _ in head)), *(_row(*row) for row in rows), ""]


def _code(text: str) -> str:
    return f"`{_cell(text).replace('`', chr(39)).replace('&lt;', '<')}`"


def _answered(answer: Answer | None) -> tuple[str, str]:
    return (answer.answer, " ".join(answer.why.split()).replace("|", "\\|")) if answer else ("**unanswered**", "")


def site_tables() -> list[str]:
    """One table per file: the statement, its answer and why."""
    answers = matched(site_answers()).answers
    sites = {site: None for files in WALKED.values() for site in walked_sites(files)} | dict.fromkeys(answers)
    lines: list[str] = []
    for file in dict.fromkeys(site.file for site in sites):
        here = [site for site in sites if site.file == file]
        lines += [f"### {file}", ""]
        rows = [(f"`{site.function or 'module'}`", _code(site.text), *_answered(answers.get(site))) for site in here]
        lines += _table(("function", "statement", "answer", "why"), rows)
    return lines


def lead_tables() -> list[str]:
    """One table per area: what is said to go wrong, its answer and why."""
    lines: list[str] = []
    for area in WALKED:
        rows = [(lead.id, _cell(lead.what), *_answered(lead)) for lead in lead_answers() if lead.area == area]
        if rows:
            lines += [f"### {area}", "", *_table(("name", "what goes wrong", "answer", "why"), rows)]
    return lines


def evidence_table() -> list[str]:
    """Each id with the test on the real libraries that proves it, or the reason why it may be stricter than they."""
    from stricter import PROVEN_IN, STRICTER

    from grpo_recipes.explain.pages import known_ids
    from grpo_recipes.rules.catalog import rules

    named = {rule.id: f"tests/evidence/test_{rule.name}.py" for rule in rules()}
    proven = {rule: file for rule, file in named.items() if (FOLDER.parents[1] / file).exists()} | PROVEN_IN
    ids = sorted({*named, *STRICTER, *PROVEN_IN})
    rows = []
    for rule in ids:
        title = known_ids().get(rule, "").partition("\n")[0]
        reasons = [f"[{Path(proven[rule]).name}](../../{proven[rule]})"] if rule in proven else []
        reasons += [f"stricter: {STRICTER[rule]}"] if rule in STRICTER else []
        rows.append((rule, title.replace("|", "\\|"), "; ".join(reasons) or "**none**"))
    return _table(("id", "truth", "evidence"), rows)


def counted() -> str:
    """How many of each kind there are, in one line."""
    answers = matched(site_answers()).answers
    kinds = [answer.answer.split(",")[0].split(" ")[0] for answer in answers.values()]
    missing = sum(len(unanswered(area, answers)) for area in WALKED)
    shown = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds), key=lambda k: -kinds.count(k)))
    return (
        f"{len(answers) + missing} statements ({shown}; {missing} unanswered), {len(lead_answers())} reported mistakes."
    )


def page() -> str:
    """The text of coverage.md."""
    releases = ", ".join(f"{package} {release}" for package, release in RELEASES.items())
    lines = ["# What becomes of every mistake", ""]
    lines += ["Written by `make coverage` from tests/evidence/answers/; do not edit.", ""]
    lines += [f"Every statement with which the walked functions of {releases} refuse or warn, and every mistake that"]
    lines += [
        "users report, has one answer: `schema`, `yaml`, `fact`, `rule`, `stack`: grpo-run says it before anything"
    ]
    lines += [
        "is loaded. `preflight`, `proof`, `guard`: said with the data, in the first step, while training. `shim`: the"
    ]
    lines += [
        "worker mends it. `owned`: grpo-run sets it itself. `never`: no recipe leads there. `later`: nobody can know"
    ]
    lines += [
        "it before the model is loaded. `note`: no mistake. `wrong`: a report that does not hold.",
        "",
        counted(),
        "",
    ]
    lines += ["## Statements", "", *site_tables(), "## Reported mistakes", "", *lead_tables()]
    lines += ["## Evidence", "", "No rule without a test on the real libraries, or a reason to be stricter than they."]
    return "\n".join([*lines, "", *evidence_table()]).rstrip() + "\n"


def missing_text(area: str) -> str:
    """The unanswered sites of an area as YAML, then the faults of its answers as comments."""
    found = matched(site_answers())
    everything = [site for files in WALKED.values() for site in walked_sites(files)]
    lines = []
    for site in unanswered(area, found.answers):
        lines += [f"  # {' '.join(site.text.split())}", f"  - in: {site.place}"]
        lines += [f"    says: {json.dumps(shortest_words(site, everything))}", "    answer: ", '    why: ""']
    told = [*found.faults, *answer_faults()]
    return "\n".join([*lines, *(f"# {text}" for text in told if text.startswith(f"{area}.yaml"))])


def main(words: Sequence[str]) -> int:
    """Writes coverage.md, or prints what is missing; 1 when something is."""
    reason = newest_stack_is_installed(RELEASES)
    if reason:
        print(reason, file=sys.stderr)
        return 1
    if words and words[0] == "--missing":
        text = "\n".join(filter(None, map(missing_text, words[1:] or WALKED)))
        print(text or "nothing is missing")
        return int(bool(text))
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(FOLDER.parents[1])}: {counted()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
