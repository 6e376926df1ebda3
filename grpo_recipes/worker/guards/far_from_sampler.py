"""The trained policy is far from the policy that wrote the completions.

GRPO trains on completions as if the current policy had written them, and corrects the difference with a ratio of
probabilities. If many ratios are clipped, or the generation engine and the trainer disagree about probabilities, much
of a batch is discarded or gets the wrong weight, and training can collapse.

Threshold: any of three means over 10 optimizer steps. First, clip_ratio/region_mean above 0.2: more than a fifth of the
tokens are clipped; it is 0 if each batch is used once. Second, sampling/sampling_logp_difference/mean above 0.1 nats;
TRL logs it only with vLLM. About 1e-3 is usual if both sides have the same precision, and NeMo-RL refuses a mean
probability error above 1.05 to 1.1. Third, the same figure above 0.02 and above 10 times its mean in the first 10
steps: the weights no longer reach vLLM, although they did in the proof of the first steps. Measured on vllm 0.31.0:
2e-7 to 4e-7 in float32 and 3e-4 to 1e-2 with bfloat16, less if the policy is more confident; on an H200 5e-3 to 1.5e-2.
TRL's importance_sampling_ratio is not used, because TRL logs it after truncating it. Releases before trl 0.16 use each
batch once, so there the guard watches nothing.

Action: warn.
What to do: against clipping, fewer num_iterations or optimizer_steps_per_generation, or a smaller learning_rate.
Against a difference, the same dtype on both sides, vllm_importance_sampling_correction, no quantized cache, and the
same sampling settings. If the difference grew, find out what broke between trainer and server at that step: read the
server's log, and check whether the server alone was restarted.
"""

from grpo_recipes.contract.metric_names import CLIP_ALL, SAMPLER_DIFFERENCE
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line, Window, figure

ID = "GRD007"
NAME = "far_from_sampler"
STEPS = 10
MOST_CLIPPED = 0.2
MOST_DIFFERENT = 0.1
MOST_GROWN = 0.02
TIMES = 10
CLIPPED_AT_FIRST = "clip_ratio"  # its name in the first release that has it


class FarFromSampler(Guard):
    """Watches the share of clipped tokens, and the difference of log-probabilities."""

    def __init__(self) -> None:
        self._clipped, self._difference = Window(STEPS), Window(STEPS)
        self._at_first: float | None = None

    def look(self, line: Line) -> Alarm | None:
        """Alarms at most once in 10 steps."""
        share = line.figures.get(CLIP_ALL, line.figures.get(CLIPPED_AT_FIRST))
        difference = line.figures.get(SAMPLER_DIFFERENCE)
        self.seen |= share is not None or difference is not None
        clipped = None if share is None else self._clipped.add(line, share)
        apart = None if difference is None else self._difference.add(line, difference)
        if apart is not None and apart > MOST_DIFFERENT:
            return Alarm.of(
                apart,
                f"log-probabilities of generator and trainer differ by {figure(apart)} on average in {STEPS} steps",
                "the generator samples from a different distribution than the trainer computes",
                "the same dtype on both sides, trl.vllm_importance_sampling_correction: true",
            )
        if apart is not None and self._at_first is not None and apart > max(MOST_GROWN, TIMES * self._at_first):
            return Alarm.of(
                apart,
                f"log-probabilities of generator and trainer differ by {figure(apart)} on average in {STEPS} steps,"
                f" {figure(self._at_first)} at first",
                "the weights no longer reach vLLM",
                "read the server's log about weight updates, then restart the server and the run together",
            )
        self._at_first = apart if self._at_first is None else self._at_first
        if clipped is not None and clipped > MOST_CLIPPED:
            return Alarm.of(
                clipped,
                f"{clipped:.0%} of the tokens of the last {STEPS} steps had a clipped ratio",
                "the policy moved far from the one that wrote these completions",
                "fewer grpo.num_iterations or optimizer_steps_per_generation, or a smaller learning_rate",
            )
        return None
