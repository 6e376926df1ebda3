"""Each completion's mask is ones up to and including its end, or up to the length limit, and zeros after.

Catches: padding that is trained because the mask ignores a stop (TRL before 1.14.2 uses a single eos id; ids in
generation_kwargs stop transformers' generation and leave the mask all ones, so PAD tokens count as the policy's), an
eos that was never generated but counts because pad and eos are the same token, a mask with holes, and a completion that
is cut although it neither ended nor reached the limit. The proof sees only token ids: one or two PADs at the end of a
completion of the full length may be the model's own and are shown; three are a failure. In a completion with tool
replies it checks the last turn, which may end early, since TRL drops replies that do not fit.
Source: trl's grpo_trainer.py; measured on trl 0.21.0 and 1.16.0.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import Completion, Completions, FirstStep

ID = "PRF008"
PROOF = Statement(ID, "completions")
OWN_PADDING = 2
PLANNED = "masks of ones that end with the completion: at eos, at a stop, or at the length limit"


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the masks of all completions of the first step."""
    if not any(process.completions.rows for process in processes):
        return PROOF.unseen("masks not checked: this trl generates completions inside its loss")
    for process in processes:
        for index, row in enumerate(process.completions.rows):
            fault = _wrong(row, process.completions, plan)
            if fault is not None:
                return _failed(f"completion {index + 1} of rank {process.rank}: {fault[0]}", fault[1])
    return PROOF.holds(_shown(processes, "eos or a stop" if plan.expect.stop or plan.expect.stop_token_ids else "eos"))


def _wrong(row: Completion, all_of: Completions, plan: Plan) -> tuple[str, str] | None:
    """Returns what is wrong with a row and why, None if nothing is."""
    if not row.is_prefix:
        return "its mask has holes", "some of its tokens are left out of the loss, or tokens after its end are in it"
    if row.tokens == 0:
        if all_of.masked or all_of.tools:
            return None
        return "its mask is all zeros", "a completion that should be trained is left out of the loss"
    if row.end is not None and row.tokens > row.end:
        after = row.tokens - row.end
        return f"{after} tokens after its end are trained", "padding, or text after the stop, counts as the policy's"
    if row.padding > OWN_PADDING:
        return f"{row.padding} PAD tokens at its end are trained", "the mask ignores the token that ended it"
    is_cut_elsewhere = all_of.tools or plan.arguments.GRPOConfig.get("use_vllm")
    if row.end is None and row.tokens < all_of.limit and not is_cut_elsewhere:
        return (
            f"its mask ends after {row.tokens} of at most {all_of.limit} tokens, at no eos or stop",
            "it ended neither at an end token of the model nor at a planned stop",
        )
    return None


def _failed(observed: str, because: str) -> Proof:
    return PROOF.fails(
        observed,
        planned=PLANNED,
        because=because,
        fix="set stops in generation.stop, not in trl.generation_kwargs;"
        " the eos comes from the model's generation_config.json and tokenizer",
    )


def _shown(processes: tuple[FirstStep, ...], end: str) -> str:
    rows = [row for process in processes for row in process.completions.rows]
    ended = sum(row.end is not None for row in rows)
    text = f"{ended}/{len(rows)} completions end at {end}, nothing after"
    text += f", {1 - ended / len(rows):.0%} truncated" if rows else ""
    padded = sum(row.padding > 0 for row in rows)
    text += f", {padded} with a generated PAD last" if padded else ""
    return text
