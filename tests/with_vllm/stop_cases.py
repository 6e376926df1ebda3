"""The cases of the stop parity table: what the model says, where it is to stop, and what is left of it then."""

from dataclasses import dataclass

from small_models import END, LOOKUP, TOOL, TURN, ids_of

ASK = "<ask>"  # added to the trainer's tokenizer alone
MORE_TOKENS = (ASK,)
# What follows the last token of a prompt, up to the end that the model makes by itself.
CHAINS = (
    ["A", "x", "y", "<", "search", ">", "0", "1", "2", "3", "4", END],
    ["B", "k", LOOKUP, "l", "m", END],
    ["C", "t", TOOL, "u", END],
    ["D", "d", ASK, "e", "f", END],
    ["E", "Ã", "©", "h", "i", END],
    ["F", "Ġ", "j", "n", END],
    ["G", "g", "o", TURN],
    ["Z", "z", "z"],
)
ENDLESS = "Z"
LIMIT = 12


@dataclass(frozen=True, slots=True)
class Case:
    """Stops for one run. Half of its prompts are `prompt`, the others are `other`.

    kept: tokens of the completion of `prompt`, by their names. truncated: it ended at the limit alone.
    masked: with mask_truncated_completions. stop_tokens: names of what is stopped at by id. overrun: vLLM cannot see
    the stop, goes on after it, and is cut, with no longer completion beside it that would hide what is left over.
    """

    name: str
    prompt: str
    kept: tuple[str, ...]
    stop: tuple[str, ...] = ()
    stop_tokens: tuple[str, ...] = ()
    limit: int = LIMIT
    truncated: bool = False
    masked: bool = False
    overrun: bool = False

    @property
    def folder(self) -> str:
        """Its name for a folder."""
        return self.name.replace(" ", "-").replace("'", "")

    @property
    def other(self) -> str:
        """The prompt of the other half."""
        return self.prompt if self.overrun else ENDLESS

    def rows(self) -> list[tuple[list[int], int]]:
        """Ids of each completion, and how many of them are trained, in the order of the table."""
        rows = []
        own = (self.kept, self.truncated)
        for tokens, truncated in (own, own if self.overrun else (("z",) * self.limit, True)):
            ids = ids_of(tokens, more_tokens=MORE_TOKENS)
            rows += [(ids, 0 if truncated and self.masked else len(ids))] * 2
        return sorted(rows)

    def clipped_ratio(self) -> float:
        """The share of truncated completions."""
        return 1.0 if self.truncated else 0.0 if self.overrun else 0.5


def _said(prompt: str) -> tuple[str, ...]:
    chain = next(chain for chain in CHAINS if chain[0] == prompt)
    return tuple(chain[1:])


WHOLE = {prompt: _said(prompt) for prompt in "ABCDEFG"}
CASES = (
    Case("no stop", "A", WHOLE["A"]),
    Case("no stop and a limit", "A", WHOLE["A"][:4], limit=4, truncated=True),
    Case("a stop that never comes", "A", WHOLE["A"], stop=("yx", "<|im_start|>")),
    Case("plain text over three tokens", "A", WHOLE["A"][:5], stop=("<search>",)),
    Case("inside a token", "A", WHOLE["A"][:4], stop=("arc",)),
    Case("a special token", "C", WHOLE["C"][:2], stop=(TOOL,)),
    Case("an added token", "B", WHOLE["B"][:2], stop=(LOOKUP,)),
    Case("inside an added token", "B", WHOLE["B"][:2], stop=("ook",)),
    Case("a token that vLLM's tokenizer lacks", "D", WHOLE["D"][:2], stop=(ASK,)),
    Case("text over a token that vLLM's tokenizer lacks", "D", WHOLE["D"][:3], stop=("k>e",), overrun=True),
    Case("by id", "A", WHOLE["A"][:8], stop_tokens=("2",)),
    Case("by id of a token that vLLM's tokenizer lacks", "D", WHOLE["D"][:2], stop_tokens=(ASK,)),
    Case("at the last position", "A", WHOLE["A"][:5], stop=("<search>",), limit=5),
    Case("at the last position by id", "A", WHOLE["A"][:8], stop_tokens=("2",), limit=8),
    Case("at the first token", "A", WHOLE["A"][:1], stop=("x",)),
    Case("a stop string in the prompt", "3A", WHOLE["A"][:9], stop=("3",)),
    Case("a stop string that began in the prompt", "yA", WHOLE["A"], stop=("Ax", "yAx")),
    Case("several stops, the earliest wins", "A", WHOLE["A"][:7], stop=("3", "01", "4"), stop_tokens=("2",)),
    Case("a character of two tokens", "E", WHOLE["E"][:2], stop=("é",)),
    Case("a space that begins the completion", "F", WHOLE["F"][:2], stop=(" j",)),
    Case("the second end token of the model", "G", WHOLE["G"]),
    Case("truncated ones masked", "A", WHOLE["A"][:5], stop=("<search>",), masked=True),
)
