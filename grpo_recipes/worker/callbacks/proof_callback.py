"""Runs the proofs: most before the first optimizer step, those about moving weights after it."""

from typing import Any

from transformers import TrainerCallback

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import gather_from_all
from grpo_recipes.worker._shared.planned import calls_tools
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.callbacks.draw_recorder import DrawWitness
from grpo_recipes.worker.callbacks.loss_recorder import Witness
from grpo_recipes.worker.memory.phase_peaks import PhasePeaks, resident_most
from grpo_recipes.worker.model.trained_tensors import (
    Arrivals,
    device_name,
    fingerprints,
    local,
    missing_in,
    parameter_devices,
    precision,
    processes_reached,
    reference,
    trainable,
    zero_matrices,
    zero_stage,
)
from grpo_recipes.worker.proofs import generate_draws_from_the_policy as draws
from grpo_recipes.worker.proofs import weights_move
from grpo_recipes.worker.proofs import weights_reach_the_sampler as reach
from grpo_recipes.worker.proofs.catalog import Prove, first_step
from grpo_recipes.worker.proofs.gradient_reaches_every_tensor import without_graph
from grpo_recipes.worker.proofs.of_turns import (
    tool_replies_are_outside_the_loss,
    tools_are_called,
    turns_are_trained_as_sampled,
)
from grpo_recipes.worker.proofs.proof import Proof, as_records, block, refusal
from grpo_recipes.worker.proofs.sampler_is_the_policy import mean, together
from grpo_recipes.worker.proofs.seen import FirstStep, Gradient, Sampled
from grpo_recipes.worker.vllm.sampled import SamplerWitness

MOVED_AFTER = 2
GIB = 1 << 30
# Proofs of a training with tools, in the order shown.
OF_TURNS: tuple[Prove, ...] = (
    tools_are_called.prove,
    turns_are_trained_as_sampled.prove,
    tool_replies_are_outside_the_loss.prove,
)


class HandOver:
    """Watches generations to prove that they follow the trained weights. leave() detaches it from the trainer."""

    def __init__(self, trainer: Any, plan: Plan) -> None:
        self._plan = plan
        with_vllm = trainer.args.use_vllm
        self._prove = reach.prove if with_vllm else draws.prove_later
        self._not_seen = reach.not_seen if with_vllm else None
        self._witness = witness = SamplerWitness(trainer) if with_vllm else DrawWitness(trainer)
        # found() returns what the last checked generation showed on this process; None if already taken.
        self.leave, self.found = witness.leave, witness.take
        self._compute: str | None = None
        # The largest difference while both were known to be the same policy: numerical noise.
        self._noise: Sampled | None = None
        self._reason = "vLLM generated once"
        self._proof: Proof | None = None

    def begin(self, processes: tuple[FirstStep, ...]) -> None:
        """Takes the first generation's results of all processes, before the policy changes."""
        every = [process.sampled for process in processes if process.sampled is not None]
        self._compute, self._noise = processes[0].precision.compute, together(every)
        if self._noise is None:
            self._reason = next(filter(None, (comparison.reason for comparison in every)), "no generation was recorded")

    def look(self, trainer: Any, steps: int) -> bool:
        """Whether the proof has a new result. All processes must call it."""
        comparison = None if self._noise is None else self._witness.take()
        if self._noise is None or comparison is None:  # the same on all processes
            return False
        now = together(gather_from_all(trainer, [comparison]))
        if now is None or not now.tokens + now.cut:
            return False
        proof = self._prove(self._plan, self._compute, self._noise, now, steps)
        if proof.ok:
            self._noise = max(self._noise, now, key=mean)
            self._witness.go_on()
        if proof.ok is None and self._proof is not None and self._proof.ok:
            return False  # already proved, and the policy has not changed enough since
        self._proof = proof
        return proof.ok is not None

    def proof(self, steps: int) -> Proof | None:
        """Returns the proof with the results so far; None if the first step's proof says all that is known."""
        return self._proof if self._not_seen is None else self._proof or self._not_seen(steps, self._reason)


class ProofCallback(TrainerCallback):  # type: ignore[misc]
    """Proves that the training matches the plan, then removes itself from the trainer.

    It must be the trainer's last callback, since it removes itself while callbacks run. Steps count from the beginning
    or from where the run was resumed. Raises Refused on every process if a proof fails.
    """

    def __init__(self, trainer: Any, plan: Plan, record: Record, peaks: PhasePeaks) -> None:
        self._trainer, self._plan, self._record, self._peaks = trainer, plan, record, peaks
        self._proofs: list[Proof] = []
        self._steps = 0
        self._due: set[str] = set()
        self._step_gradients: set[str] = set()
        self._announced = False
        self._has_moved = False
        self._hand_over: HandOver | None = None
        self._before: dict[str, int] = {}
        self._witness: Witness | None = None
        self._arrivals: Arrivals | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts watching. By now the model is wrapped, on its device and sharded if planned."""
        model = self._trainer.model
        self._before = fingerprints(model)
        self._hand_over = HandOver(self._trainer, self._plan)
        self._witness = Witness(self._trainer, self._plan, self._refuse_dead_loss)
        if zero_stage(self._trainer):
            self._arrivals = Arrivals(trainable(model).items())

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Runs the proofs of the first step, and notes which tensors this step can move."""
        if not self._has_moved:
            gradients = self._gradients()
            rates = [group["lr"] for group in self._trainer.optimizer.param_groups]
            self._step_gradients = {each.name for each in gradients if each.nonzero} if any(rates) else set()
            if self._witness is not None:
                self._trainer.seams.refuse_other_calls(redraws=self._plan.resample_groups > 0)
                self._prove_first_step(self._witness, gradients)
                return
        if self._hand_over is not None and self._hand_over.look(self._trainer, self._steps):
            self._keep_hand_over(self._hand_over)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Proves movement after the second step, or once there was a gradient."""
        self._steps += 1
        if self._has_moved:
            return
        if not self._trainer.accelerator.optimizer_step_was_skipped:
            self._due |= self._step_gradients
        if self._arrivals is not None:
            self._arrivals.reset()
        if self._steps >= MOVED_AFTER and not self._prove_movement():
            if not self._announced:
                self._say(f"proof postponed  {weights_move.postponed(self._steps).shown}")
            self._announced = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Proves movement in a run that ends early, or reports that it could not be proved."""
        if not self._has_moved and not self._prove_movement():
            self._proofs.append(weights_move.postponed(self._steps))
            self._has_moved = True
        if self._hand_over is not None:
            self._keep_hand_over(self._hand_over)
            self._hand_over.leave()
            self._hand_over = None
        self._keep_or_refuse()
        self._leave()

    def _refuse_dead_loss(self) -> None:
        """Refuses immediately, without the other processes: the backward pass would raise."""
        self._proofs = [without_graph()]
        self._keep_or_refuse()

    def _gradients(self) -> list[Gradient]:
        due = set() if self._witness is None else self._witness.due()
        if self._arrivals is not None:
            present, nonzero = self._arrivals.present(), self._arrivals.nonzero()
            return [Gradient(name, name in due, name in present, name in nonzero) for name in self._before]
        gradients = []
        for name, parameter in trainable(self._trainer.model).items():
            gradient = parameter.grad
            nonzero_here = gradient is not None and bool(local(gradient).any())
            gradients.append(Gradient(name, name in due, gradient is not None, nonzero_here))
        return gradients

    def _prove_first_step(self, witness: Witness, gradients: list[Gradient]) -> None:
        own_step = self._observe(witness, gradients)
        everyone = tuple(gather_from_all(self._trainer, [own_step]))
        witness.leave()
        self._witness = None
        of_turns = OF_TURNS if calls_tools(self._plan) else ()
        self._proofs = [prove(self._plan, everyone) for prove in (*first_step(self._plan), *of_turns)]
        self._say(block(self._proofs))
        self._keep_or_refuse()
        if self._hand_over is not None:
            self._hand_over.begin(everyone)

    def _keep_hand_over(self, hand_over: HandOver) -> None:
        """Replaces the proof with its current state, or adds it and prints it once."""
        proof = hand_over.proof(self._steps)
        if proof is None or (proof.ok is None and proof.id == draws.ID):
            return
        before = [earlier for earlier in self._proofs if earlier.id == proof.id]
        if before:
            self._proofs[self._proofs.index(before[0])] = proof
        else:
            self._add(proof, self._steps + 1)
        self._keep_or_refuse(self._steps + 1)

    def _observe(self, witness: Witness, gradients: list[Gradient]) -> FirstStep:
        trainer = self._trainer
        peak, resident = self._peaks.most(), resident_most()
        is_gpu = peak.reserved is not None
        return FirstStep(
            rank=trainer.accelerator.process_index,
            processes=trainer.accelerator.num_processes,
            reached=processes_reached(trainer),
            deepspeed_stage=zero_stage(trainer),
            device=device_name(trainer.accelerator.device),
            parameter_devices=parameter_devices(trainer),
            forwards=tuple(witness.forwards),
            losses=tuple(float(loss) for loss in witness.losses),
            noise=witness.noise,
            unpadded=witness.unpadded,
            images=witness.images(),
            gradients=tuple(gradients),
            precision=precision(trainer, witness.compute_dtype, witness.scores_dtypes),
            reference=reference(trainer),
            completions=witness.completions(),
            memory_gib=(resident if is_gpu else max(resident, peak.held)) / GIB,
            gpu_gib=peak.held / GIB if is_gpu else None,
            sampled=None if self._hand_over is None else self._hand_over.found(),
            turns=None if witness.turns is None else witness.turns.seen(),
            scored=() if witness.turns is None else witness.turns.scored(),
        )

    def _prove_movement(self) -> bool:
        """Proves that weights moved; false if there was no gradient yet. All processes see the same."""
        model = self._trainer.model
        due = set().union(*gather_from_all(self._trainer, [self._due]))
        if not due:
            return False
        now = fingerprints(model)
        changed = {name for name, value in self._before.items() if now.get(name) != value}
        moved = set().union(*gather_from_all(self._trainer, [changed]))
        zero = set.intersection(*gather_from_all(self._trainer, [zero_matrices(model)]))
        left_out = set() if self._has_sharded_optimizer() else missing_in(self._trainer.optimizer, model)
        kind = self._plan.expect.trainable
        self._add(weights_move.prove(due, moved, zero, left_out, kind, self._steps), self._steps)
        self._has_moved = True
        self._leave()
        self._keep_or_refuse()
        return True

    def _add(self, proof: Proof, step: int) -> None:
        self._proofs.append(proof)
        if proof.ok:
            self._say(f"step {step} proof  {proof.shown}")

    def _has_sharded_optimizer(self) -> bool:
        return self._arrivals is not None or self._plan.world.strategy == "fsdp2"

    def _keep_or_refuse(self, step: int | None = None) -> None:
        """Records the proofs, or raises Refused. step: the step of the proofs, if it is not over yet."""
        self._record.update(proofs=as_records(self._proofs))
        if any(proof.ok is False for proof in self._proofs):
            raise Refused(*refusal(self._proofs, step or self._steps or 1))

    def _say(self, text: str) -> None:
        if self._trainer.is_world_process_zero():
            print(text, flush=True)

    def _leave(self) -> None:
        """Detaches all watchers from the trainer, and the callback itself if nothing is left to prove."""
        if self._has_moved and self._arrivals is not None:
            self._arrivals.remove()
            self._arrivals = None
        if self._has_moved and self._hand_over is None and self in self._trainer.callback_handler.callbacks:
            self._trainer.remove_callback(self)
