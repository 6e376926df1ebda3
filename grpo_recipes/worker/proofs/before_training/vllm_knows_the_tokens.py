"""A token id means the same token for vLLM as for the trainer.

vLLM reads its own tokenizer, from the folder that it was started with. Completions travel as token ids, so a token that
only one side knows is not an error by itself. Catches: an end, a stop or an added token for which vLLM has no row, and
a stop text that it would never see, because it spells the tokens of that text differently and does not get their ids
either. A server that does not report its tokens is not checked.
Source: vllm 0.31.0 (/v1/completions names its vocabulary when it refuses a stop that is not in it, /detokenize).
"""

from collections.abc import Iterator

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training.compared import Compared, Loaded

ID = "PRF018"
NAME = "vLLM's tokens"
OTHER = "the vLLM server has a different tokenizer or model than the trainer"
SAME_MODEL = "start vLLM from the folder that the trainer loads, with its tokenizer and its added tokens"


def compare(plan: Plan, seen: Loaded) -> Iterator[Compared]:
    """The tokens that vLLM has to know, if it runs in this process or this process reaches it."""
    tokens = seen.vllm_tokens
    if tokens is None:
        return
    if tokens.vocabulary is None or (plan.expect.stop and not tokens.spells):
        yield Compared("vLLM's tokens", "not checked", "not checked")
    if tokens.vocabulary is not None:
        beyond = ", ".join(tokens.beyond)
        live = f"{tokens.vocabulary} rows, without token {beyond}" if beyond else "every token"
        because = f"{OTHER}: it can neither read nor write these tokens"
        yield Compared("vocabulary of vLLM", "every token", live, because, SAME_MODEL)
    for stop, ids, text in tokens.stops:
        because = f"{OTHER}: its tokens {list(ids)} are {text!r}, so it would never see this stop"
        yield Compared("stop as vLLM spells it", stop, stop if stop in text else text, because, SAME_MODEL)
