"""The policy sees the same images while it generates and in the loss.

Only with `dataset.images`. The first generation and each loss of the first step get `pixel_values`, except for rows of
text alone, and every image in a loss was in the generation. A row of a loss has the images that its completion was
generated with, and a row of text has none; this is checked unless the processor divides images into patches. No image
token is trained. In each evaluation, the first batch with images gets those of its rows, in their order.

Catches: a trainer that drops images before the loss or before generation, or gives the loss different ones. Without an
error, the policy would be trained on answers about images that it did not see. An evaluation with such a fault would
score answers about images that it did not show.
Source: trl's grpo_trainer.py, which runs the processor separately for generation and loss.
"""

from itertools import zip_longest

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF037"
PROOF = Statement(ID, "images")
PLANNED = "the images of the rows, in generation, loss and evaluation"


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the images in generation and losses of the first step on each process."""
    with_images = 0
    for process in processes:
        images = process.images
        if images is not None and not (images.given or images.generated or images.trained or images.without):
            continue  # rows of text alone
        with_images += 1
        if images is None or not (images.generated or images.trained):
            return _failed("no images in generation and loss", "they were lost before they reached the model")
        if not images.generated:
            return _failed("no images in the generation", "the policy answered without seeing the images")
        if images.without:
            observed = f"no images in {images.without} of {len(process.losses)} losses"
            return _failed(observed, "the policy would be trained without the images that it saw in generation")
        if images.tokens:
            observed = f"{images.tokens} image tokens are trained"
            return _failed(observed, "they are part of the prompt, and the policy would learn to write them")
        if unknown := images.trained - images.generated:
            observed = f"{len(unknown)} of {len(images.trained)} parts of images in the loss were not in the generation"
            return _failed(observed, "the loss has different images than the generation")
        if images.misplaced:
            observed = f"{images.misplaced} of {images.rows} rows of the loss have the images of other rows"
            return _failed(observed, "the policy would be trained on answers about other images")
    if not with_images:
        return PROOF.unseen("images not checked: the first step has text alone")
    return PROOF.holds("images in generation and loss")


def prove_evaluation(expected: list[str], given: list[str]) -> Finding | None:
    """What is wrong with the images that the policy got in an evaluation, None if they are the expected ones.

    expected, given: digests of their parts, in the order of the rows.
    """
    wrong = sum(digest != other for digest, other in zip_longest(expected, given))
    if not wrong:
        return None
    if given:
        observed, because = f"{wrong} of {len(expected)} parts of images are not those of the rows", "other images"
    else:
        observed, because = "no images", "images that it was not shown"
    failed = _failed(f"{observed} in the evaluation", f"the rewards would judge the policy's answers to {because}")
    return failed.finding and failed.finding._replace(message=f"{failed.finding.message} in an evaluation")


def _failed(observed: str, because: str) -> Proof:
    fix = "look for a patch or a remote-code class that changes the model's inputs or the processor"
    return PROOF.fails(observed, planned=PLANNED, because=because, fix=fix)
