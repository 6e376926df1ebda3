"""Each completion's mask is ones up to and with what ends it, or up to the longest length, and zeros after.

Catches: padding that is trained because a stop was not known to the mask (TRL before 1.14.2 knows one eos id; ids
in generation_kwargs stop transformers generation and leave the mask all ones: PAD tokens as policy tokens), an eos
that was never generated and is counted when pad and eos are one token, a mask with holes, and a completion that is
cut though it neither ended nor was at its longest. What the model generates is known only by its tokens: one or two
PADs at the end of a completion of the full length may be the model's own and are shown; three are a failure. Of a
completion with replies of tools the last turn is looked at; whether it ends early is TRL's to say, who drops replies
that do not fit.
Source: trl 1.16.0 grpo_trainer.py; measured on trl 0.21.0 and 1.16.0.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import Completion, Completions, FirstStep

ID = "PRF008"
PROOF = Statement(ID, "completions")
OWN_PADDING = 2
PLANNED = "masks of ones that end with the completion: at eos, at a stop, or at the longest length"


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The masks of all completions of the first step."""
    if not any(one.completions.rows for one in seen):
        return PROOF.unseen("masks not seen: this trl makes the completions inside its loss")
    for one in seen:
        for place, row in enumerate(one.completions.rows):
            found = _wrong(row, one.completions, plan)
            if found is not None:
                return _failed(f"completion {place + 1} of rank {one.rank}: {found[0]}", found[1])
    return PROOF.holds(_shown(seen, "a stop" if plan.expect.stop or plan.expect.stop_token_ids else "eos"))


def _wrong(row: Completion, all_of: Completions, plan: Plan) -> tuple[str, str] | None:
    """What is found and why it is wrong, None for a row that is right."""
    if not row.is_prefix:
        return "its mask has holes", "tokens of it are left out of the loss, or tokens after its end are in it"
    if row.tokens == 0:
        if all_of.masked or all_of.tools:
            return None
        return "its mask is all zeros", "a completion that the plan trains is left out of the loss"
    if row.end is not None and row.tokens > row.end:
        after = row.tokens - row.end
        return f"{after} tokens after its end are trained", "padding, or text after the stop, is taken for the policy's"
    if row.padding > OWN_PADDING:
        return f"{row.padding} PAD tokens at its end are trained", "what ended it is unknown to the mask"
    is_cut_elsewhere = all_of.tools or plan.arguments.GRPOConfig.get("use_vllm")
    if row.end is None and row.tokens < all_of.limit and not is_cut_elsewhere:
        return (
            f"its mask ends after {row.tokens} of at most {all_of.limit} tokens, at no eos or stop",
            "what ended it is neither an end token of the model nor the planned stop",
        )
    return None


def _failed(found: str, because: str) -> Proof:
    return PROOF.fails(
        found,
        planned=PLANNED,
        because=because,
        fix="generation.stop for what ends a completion, and nothing of the kind under trl.generation_kwargs;"
        " the model's generation_config.json and tokenizer name its eos",
    )


def _shown(seen: tuple[FirstStep, ...], end: str) -> str:
    rows = [row for one in seen for row in one.completions.rows]
    ended = sum(row.end is not None for row in rows)
    unmasked = [row for row in rows if row.tokens]
    text = f"{ended}/{len(rows)} completions end at {end}, nothing after"
    cut = sum(row.end is None for row in unmasked)
    text += f", {cut / len(rows):.0%} truncated" if rows else ""
    padded = sum(row.padding > 0 for row in rows)
    text += f", {padded} with a generated PAD last" if padded else ""
    ratios = [one.completions.clipped_ratio for one in seen]
    if rows and ratios[0] is not None and abs(ratios[0] - cut / len(rows)) > 0.5 / len(rows):
        text += f" (trl logs {ratios[0]:.0%})"
    return text
