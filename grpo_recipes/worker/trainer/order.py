"""What a run has around each member of the trainer, outermost first: who sees a call first, and its result last.

Of two layers in one place, the one that was added first is outside.
"""

ORDER: dict[str, tuple[tuple[str, str], ...]] = {
    "prompts are ordered": (
        ("resumed epochs", "draws from the order that the run really reads"),
        ("newest order", "replaces an older release's order"),
    ),
    "batch is prepared": (
        ("inputs of a loss", "shows them as the loss gets them"),
        ("sorted rows", "changes how TRL cuts a generation into micro-batches"),
    ),
    "completions are made": (
        ("images of the first step", "counts what TRL is given"),
        ("kept completions", "writes the batch that the loss will get"),
        ("phase", "times generation, and not the writing"),
        ("groups", "corrects advantages of all rows, and then shows them"),
        ("rows of text", "sees the rows that are really trained"),
        ("redrawn groups", "calls TRL's method several times for one generation"),
    ),
    "prompts are tokenized": (
        ("prompts of vLLM", "reads the tokens that the loss gets"),
        ("rows of text", "gives rows without images what processors take"),
        ("last tokens", "cuts what TRL's own method returns"),
    ),
    "completions are generated": (("tools", "counts the calls of one generation"),),
    "turn is generated": (
        ("turns of the first step", "shows the tokens that will be trained"),
        ("tools", "times the generator, without the tools"),
        ("ends", "cuts completions at their end, also redrawn ones"),
        ("last tokens", "cuts prompts before TRL's method sees them"),
        ("redrawn groups", "returns kept completions instead of calling TRL"),
    ),
    "tools are called": (("tools", "seeds the calls of an evaluation"),),
    "rewards are given": (
        ("redrawn groups", "ends a pass once it has rewards, or gives those that are kept"),
        ("plain tokens", "hands rewards tokens that equal each other"),
        ("phase", "times TRL's own method"),
    ),
    "tokens are scored": (
        ("redrawn groups", "scores one row, since no loss follows"),
        ("dtypes of the first step", "looks at each pass"),
        ("turns of the first step", "keeps the scores that the loss gets"),
        ("phase", "times scoring however it is done"),
        ("rows of text", "gives each part its own images"),
        ("less padding", "narrows the rows of a part"),
    ),
    "loss is computed": (
        ("first step", "looks at everything that one loss does"),
        ("figures by tokens", "takes TRL's figures of this micro-batch"),
    ),
    "micro-batch is trained": (
        ("loss before the checkpoint", "is added to what the trainer sums up"),
        ("real losses", "looks at TRL's own loss"),
    ),
    "weights reach vLLM": (("phase", "times the hand-over"),),
    "optimizer is created": (("groups with parameters", "drops empty groups before the schedule exists"),),
    "decayed weights are named": (("newest names", "replaces an older release's choice"),),
    "figures are logged": (("secrets", "hides them before any table is written"),),
    "step ends": (("summed loss", "keeps it for the next checkpoint"),),
    "checkpoint is saved": (
        ("phase", "times writing and renaming"),
        ("same folder", "looks before anything is written"),
        ("whole checkpoints", "writes elsewhere, and renames"),
    ),
    "model is saved": (("same folder", "looks before anything is written"),),
    "checkpoint is loaded": (("dtypes", "restores what loading changed"),),
    "policy generates": (
        ("redrawn groups", "returns kept completions instead of the policy"),
        ("drawn tokens", "compares what the policy itself draws"),
        ("images of the first step", "shows what the policy was given"),
        ("lengths of the first step", "measures what the policy returns"),
        ("phase", "times generation inside the loss of trl 0.14"),
        ("unscored", "leaves logits as the policy computes them"),
        ("cache", "lets layers keep their cache"),
        ("stops", "adds the recipe's stops"),
    ),
    "gradient is clipped": (("real losses", "looks at the norm"),),
    "values are gathered": (("groups", "sees the rewards of trl 0.14"),),
    "vLLM gets weights": (
        ("phase", "times the hand-over"),
        ("images", "forgets what old weights saw"),
        ("adapter", "sends the adapter instead of all weights"),
    ),
    "engine generates": (
        ("first step", "shows what vLLM was asked"),
        ("phase", "times generation inside the loss of trl 0.14"),
        ("prompts of vLLM", "asks with the tokens of the loss"),
        ("seeds", "seeds each request"),
    ),
    "server generates": (("prompts of vLLM", "asks with the tokens of the loss"),),
    "completions are made in the batch": (
        ("phase", "times generation"),
        ("groups", "corrects advantages of all rows, and then shows them"),
    ),
    # Of no member: whom "groups" tells; watch_groups in worker/_shared/equal_rewards.py adds them.
    "groups are known": (
        ("equal rewards", "corrects advantages before anybody reads them"),
        ("shares without variance", "logs them"),
        ("ends", "logs them"),
        ("noise", "measures what the correction leaves"),
    ),
}
"""(place, why it stands there) by event."""


def position(event: str, place: str) -> int:
    """Returns the number of a place, 0 for the outermost. Raises KeyError for a place that is not on this page."""
    for number, (name, _) in enumerate(ORDER[event]):
        if name == place:
            return number
    raise KeyError(f"{place} at {event}")
