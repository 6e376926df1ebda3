"""The policy sees the same images while it generates and in the loss.

Only with `dataset.images`. The first generation and each loss of the first step get `pixel_values`, and those of a loss
were all in the generation. A row of a loss has the images that its completion was generated with, if a processor makes
as many for each row. No token of an image is trained.

Catches: a trainer that drops images before the loss or before generation, or gives the loss other ones: the policy
would be trained on answers to what it did not see, without any error.
Source: trl 1.16.0 grpo_trainer.py, which runs the processor twice, once for each.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF037"
PROOF = Statement(ID, "images")
PLANNED = "the images of the rows, in generation and in the loss"


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """What the generation and the losses of the first step got, on each process."""
    for process in seen:
        images = process.images
        if images is None or not (images.generated or images.trained):
            return _failed("no images in generation and loss", "they were lost before the model")
        if not images.generated:
            return _failed("no images in the generation", "completions answer a question whose images were not shown")
        if images.without:
            found = f"no images in {images.without} of {len(process.losses)} losses"
            return _failed(found, "the loss is of completions that the policy would give without what it was shown")
        if images.tokens:
            found = f"{images.tokens} tokens of images are trained"
            return _failed(found, "they are part of the prompt, and the policy would learn to write them")
        if unknown := images.trained - images.generated:
            found = f"{len(unknown)} of {len(images.trained)} parts of images in the loss were not in the generation"
            return _failed(found, "the loss is of other images than those that the completions are about")
        if images.misplaced:
            found = f"{images.misplaced} of {images.rows} rows of the loss have the images of other rows"
            return _failed(found, "the policy would be trained on answers to images that it was not shown with them")
    return PROOF.holds("images in generation and loss")


def _failed(found: str, because: str) -> Proof:
    fix = "look for a patch or a remote-code class that changes what the model is called with, or the processor"
    return PROOF.fails(found, planned=PLANNED, because=because, fix=fix)
