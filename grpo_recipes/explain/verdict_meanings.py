"""What each verdict about a finished run means, and what to do; run_verdict.py decides which ones apply."""

MEANINGS = {
    "VRD001": "Better than before: the held-out figure rose, and its interval excludes 0. Of 40 runs that learn"
    " nothing, about one gets this verdict, also with `keep_best`; see docs/evaluation.md.",
    "VRD002": "No held-out change: its interval contains 0. More held-out rows make it narrower; more steps or easier"
    " prompts make the change larger. Fewer than 8 rows cannot show a change. If `keep_best` chose the step by these"
    " rows, the interval is widened by the number of evaluations that it chose from, and must still exclude 0.",
    "VRD003": "Worse than before: the held-out figure fell, and its interval excludes 0. The rewards may favour"
    " something other than what they should teach, or the learning rate is too high.",
    "VRD004": "Already at its best before training: at step 0 every reward of each held-out row was 1, or 99.5 % of the"
    " completions passed, so no training could show a gain. Harder rows can. A run also warns if that is so after its"
    " warm start.",
    "VRD005": "The training reward rose and the held-out figure did not, and its interval excludes such a rise:"
    " the model learned the training rows, or an answer that is rewarded without solving the task. The completions"
    " with the highest rewards show which.",
    "VRD006": "Completions grew by half, and the training reward did not rise: the model learned to write"
    " more. A limit, an overlong penalty or a length reward ends that.",
    "VRD007": "The policy drifted far from its start: entropy or KL left the range of its guard, or entropy more than"
    " doubled without reward. A smaller learning rate keeps it near, or a larger beta, or after a"
    " warm start fewer steps of it.",
    "VRD008": "Rewards contradict each other: on the same rows one rose and a different one fell, both beyond noise."
    " Their weights decide which one wins.",
    "VRD009": "There is no held-out score both before and after training, so only the training reward is known: it"
    " rose, fell, or did not change beyond noise. `evaluation` with `at_start` and held-out rows would show more.",
    "VRD010": "No sign that the model uses its images: with grey images it is right as often, as far as the"
    " held-out rows show. They can be answered without images, or the model learned nothing that it reads from them.",
    "VRD011": "Nothing was trained: in no step did two completions of a group have different rewards, and GRPO only"
    " learns from such differences. The task is too hard or too easy for the model, or a reward is always the same.",
    "VRD012": "A reward never varied: one of several gave every completion of every step the same value, so it taught"
    " nothing. A score that stays 0 was never earned, for example because its pattern or column never fits; a penalty"
    " that stays 0 was never incurred, which may be right.",
    "VRD013": "What each phase brought on held-out rows: the warm start since step 0, and GRPO since the warm start,"
    " each with its interval. A phase whose interval contains 0 brought nothing that these rows can show."
    " With `keep_best`, `final/` may have the model of the warm start.",
}
