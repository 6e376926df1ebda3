"""The proof that trained weights reach vLLM: begun in the first step, made as soon as something can be told."""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import gathered
from grpo_recipes.worker.proofs import weights_reach_the_sampler as reach
from grpo_recipes.worker.proofs.proof import Proof
from grpo_recipes.worker.proofs.sampler_is_the_policy import together
from grpo_recipes.worker.proofs.seen import FirstStep, Sampled
from grpo_recipes.worker.vllm.sampled import SamplerWitness


class HandOver:
    """Watches generations until one shows whether vLLM has the trained weights. leave() takes it off the trainer."""

    def __init__(self, trainer: Any, plan: Plan) -> None:
        self._plan = plan
        self._witness = witness = SamplerWitness(trainer)
        # found() gives what the last generation that was looked at showed on this process, None where it was taken.
        self.leave, self.found = witness.leave, witness.take
        self._compute: str | None = None
        self._at_first: Sampled | None = None
        self._reason = "vLLM generated once"
        self._proof: Proof | None = None

    def begin(self, seen: tuple[FirstStep, ...]) -> None:
        """Keeps what all processes saw of the first generation, from which the policy moves."""
        every = [one.sampled for one in seen if one.sampled is not None]
        self._compute, self._at_first = seen[0].precision.compute, together(every)
        if self._at_first is None:
            self._reason = next((one.reason for one in every if one.reason), "no generation was seen")

    def look(self, trainer: Any, steps: int) -> bool:
        """Whether nothing more is to come: it was proved, or failed, or cannot be seen here. All processes call it."""
        if self._at_first is None:
            return True
        found = self._witness.take()
        if found is None:  # on all processes alike
            return False
        now = together(gathered(trainer, [found]))
        if now is None or not now.tokens + now.cut:
            return False
        self._proof = reach.prove(self._plan, self._compute, self._at_first, now, steps)
        return self._proof.ok is not None

    def proof(self, steps: int) -> Proof:
        """What is known by now."""
        return self._proof or reach.not_seen(steps, self._reason)
