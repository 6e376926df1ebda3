"""benchmarks/stacks.md: a row for each stack, with what the tests of a session have seen there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from environments import ENVIRONMENTS
from raw_experiments import FAILURES

THROUGH = "through grpo-run"
SAME_EXPERIMENT = "same experiment"
SAME_SAMPLES = "same samples"
COLUMNS = (*FAILURES.values(), THROUGH, SAME_EXPERIMENT, SAME_SAMPLES)

HEAD = """# Every stack

Written by `make test-stacks`: real releases, one process each, tiny models on a CPU. A stack is trl/transformers, with
the packages of `tests/stacks/stacks.json`. Columns 0 to 4 show the five failures of docs/faq.md with TRL alone, in
scripts as users write them:

- 0: the logits from which the log-probabilities are computed, by model class. "right" means equal to a plain float32
  forward pass to 1e-4; "completion only" is the cheap way, "full sequence" also takes memory for the prompt.
- 1: two processes with ZeRO-3, every parameter sharded, generating with transformers.
- 2: a 4-bit model with bitsandbytes and beta 0.04. If transformers refuses a CPU without intel_extension_for_pytorch,
  the test makes it believe that this package is installed, from "without adapter" to the end.
- 3: a LoRA adapter with gradient checkpointing; it trains if every lora_B is not zero after two steps.
- 4: a completion that should end at a character, requested in four ways, generating with transformers.

The other columns are about grpo-run:

- through grpo-run: grpo-run trains each of these cases with every proof of the first steps, or refuses it before
  anything starts. 1 has evaluations; quickstart is `grpo-run recipes/quickstart.yaml` with two steps and another loss.
- same experiment: the relative L2 distance between the gradients of three steps and an independent float64 reference,
  on fixed completions: unequal lengths, one truncated, padded prompts, a KL term, two accumulation steps (bnpo: one).
- same samples: four steps with completions from transformers, compared with the newest stack.

CPU seconds include all processes and imports.

"""


@dataclass
class StacksTable:
    """The table of a session."""

    _cells: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def fill(self, stack: str, column: str, outcome: str, label: str = "") -> None:
        """Writes what was seen on a stack into a cell. column: one of COLUMNS; label: what of, several share a cell."""
        assert column in COLUMNS, column
        self._cells.setdefault((stack, column), {})[label] = outcome

    def _cell(self, stack: str, column: str) -> str:
        """The labels of each outcome and the outcome: "Qwen2, Llama: right; GPT2: wrong"."""
        labels: dict[str, list[str]] = {}
        for label, outcome in self._cells.get((stack, column), {}).items():
            labels.setdefault(outcome, []).append(label)
        told = [f"{', '.join(filter(None, names))}: {outcome}".removeprefix(": ") for outcome, names in labels.items()]
        return "; ".join(told).replace("|", "\\|") or "-"

    def _rows(self, cpu_s: Mapping[str, float], before: str) -> Iterator[str]:
        written = {line.split(" | ")[0].removeprefix("| "): line for line in before.splitlines() if "/" in line[:10]}
        for stack in ENVIRONMENTS:
            if stack in cpu_s:
                cells = [stack, *(self._cell(stack, column) for column in COLUMNS), f"{cpu_s[stack]:.0f}"]
                yield f"| {' | '.join(cells)} |"
            elif stack in written:
                yield written[stack]

    def text(self, cpu_s: Mapping[str, float], before: str = "") -> str:
        """The page. cpu_s: CPU seconds by stack; before: the page as it was, whose rows of other stacks are kept."""
        heads = ["stack", *COLUMNS, "CPU s"]
        rows = list(self._rows(cpu_s, before))
        seconds = sum(float(row.removesuffix(" |").rpartition(" | ")[2]) for row in rows)
        table = "\n".join([f"| {' | '.join(heads)} |", f"|{'|'.join(['---'] * len(heads))}|", *rows])
        return f"{HEAD}{table}\n\nCPU seconds in all: {seconds:.0f}\n"
