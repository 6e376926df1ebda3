"""The model returns logits for exactly the completion to the loss, or no logits.

TRL scores the completion with logits of C + 1 positions (it drops the last one) or, with its fused head, with
log-probabilities and no logits. Catches: a `forward` that silently ignores TRL's keyword (`logits_to_keep`, before
transformers 4.49 `num_logits_to_keep`). It then returns logits of the whole sequence, (B, P+C, V): memory grows with
the prompt, and TRL 0.14 silently scores completion tokens with logits of prompt positions (0.28 off in a
log-probability, trl 0.14.0 with transformers 4.52.4). Also catches a class that drops one position too many, (B, C, V).
Source: trl's trainer/utils.py add_fused_lm_head; measured on trl 0.14.0 to 1.16.0.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep, Forward

ID = "PRF003"
PROOF = Statement(ID, "logits")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the shapes of the outputs that the model's forward returned for the loss."""
    forwards = [forward for process in processes for forward in process.forwards]
    wrong = [forward for forward in forwards if not _fits(forward)]
    if forwards and not wrong:
        built = next((forward.logits for forward in forwards if forward.logits), None)
        return PROOF.holds(f"logits {_shape(built)}" if built else "no logits built (fused head)")
    if not forwards:
        return PROOF.fails(
            "not seen",
            observed="the loss was computed without calling the policy",
            planned="one forward pass of the policy for each micro-batch",
            because="a different model than the planned one would be trained",
            fix="look for code that replaces trainer.model, or the model's forward, after it was built",
        )
    return _wrong(wrong[0])


def _fits(forward: Forward) -> bool:
    columns = (forward.completion + 1, forward.longest + 1)
    if forward.logits is not None:
        return forward.logits in [(forward.batch, each, forward.vocabulary) for each in columns]
    shape = forward.log_probs
    return shape is not None and shape[0] == forward.batch and shape[1] >= forward.longest


def _wrong(forward: Forward) -> Proof:
    batch, prompt, completion = forward.batch, forward.prompt, forward.completion
    planned = f"no logits, or {_shape((batch, completion + 1, forward.vocabulary))}: completion {completion}, plus 1"
    if forward.logits is None:
        observed, because = f"log-probabilities {_shape(forward.log_probs)}, no logits", "the completion is not covered"
    elif forward.logits[1:2] == (prompt + completion,):
        observed = f"logits {_shape(forward.logits)}: the whole sequence, prompt {prompt} and completion {completion}"
        because = "the model's forward ignores the keyword that keeps the last logits (logits_to_keep)"
    else:
        observed = f"logits {_shape(forward.logits)}"
        because = "log-probabilities would be taken from other positions than the completion's"
    fix = "versions of trl and transformers that use the same keyword; grpo-run doctor names known defects"
    return PROOF.fails(observed, planned=planned, because=because, fix=fix)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "none" if shape is None else f"({', '.join(map(str, shape))})"
