"""The names of a step's figures. TRL logs most of them; this package adds those at the end."""

GRAD_NORM = "grad_norm"
REWARD = "reward"
REWARD_STD = "reward_std"
KL = "kl"
ENTROPY = "entropy"
MEAN_LENGTH = "completions/mean_length"
MIN_LENGTH = "completions/min_length"
MAX_LENGTH = "completions/max_length"
MEAN_ENDED_LENGTH = "completions/mean_terminated_length"
MIN_ENDED_LENGTH = "completions/min_terminated_length"
MAX_ENDED_LENGTH = "completions/max_terminated_length"
CLIPPED_RATIO = "completions/clipped_ratio"
CLIP_ALL = "clip_ratio/region_mean"
CLIP_LOW = "clip_ratio/low_mean"
CLIP_HIGH = "clip_ratio/high_mean"
CLIP_LOWEST = "clip_ratio/low_min"
CLIP_HIGHEST = "clip_ratio/high_max"
CLIP_CISPO = "cispo_clip_ratio"
VESPO_WEIGHT = "vespo/phi_seq_mean"
SAMPLER_DIFFERENCE = "sampling/sampling_logp_difference/mean"
SAMPLER_DIFFERENCE_MAX = "sampling/sampling_logp_difference/max"
TOOL_CALLS = "tools/call_frequency"
TOOL_FAILURES = "tools/failure_frequency"
TRL_WITHOUT_VARIANCE = "frac_reward_zero_std"
"""Share of the groups without variance by TRL, which counts float32 rounding as variance."""

# Added by this package.
GROUPS_WITHOUT_VARIANCE = "groups_without_variance"
"""Share of a step's groups whose completions all have the same reward, as the worker counts it."""
PROMPTS_ANSWERED = "resample/prompts"
"""Prompts of a generation that were answered, including redrawn ones."""
GROUPS_REDRAWN = "resample/groups_redrawn"
"""Groups of a generation that replaced those without variance, over all rounds."""
GROUPS_LEFT = "resample/groups_left"
"""Groups of a generation that are trained without variance."""
REDRAWING_ROUNDS = "resample/rounds"
REWARD_AS_DRAWN = "resample/reward"
"""Mean reward of a generation before redrawing; the trained groups are selected for their variance."""
SOURCE_REWARD = "sources/{}/reward"
"""Mean reward of the completions of one source of a mixture in a step."""
SOURCE_WITHOUT_VARIANCE = "sources/{}/groups_without_variance"
TOOL_FAILED_CALLS = "tools/failed_call_frequency"
TOOL_SECONDS = "tools/seconds"
GENERATING_SECONDS = "tools/generating_seconds"
JUDGE_FAILED = "judge/failed"
"""Share of the completions of a generation without a score from a judge."""
COMPLETIONS_FAILED = "completions/failed"
"""Share of the completions of a generation that a reward or judge failed on; from the first one on."""
TOKENS_AFTER_END = "completions/with_tokens_after_end"
OF_REWARDS = "reward"
PHASE_SECONDS: dict[str, str] = {
    "generate": "seconds/generate",
    "sync": "seconds/sync",
    "score": "seconds/score",
    OF_REWARDS: "seconds/reward",
    "update": "seconds/update",
}
"""Elapsed seconds of each phase since the previous line. Scoring is that of log-probabilities, without rewards."""
PHASE_WORDS = {
    "generate": "generation",
    "sync": "weights to vLLM",
    "score": "scoring",
    OF_REWARDS: "rewards",
    "update": "update",
}
