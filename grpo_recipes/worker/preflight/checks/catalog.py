"""The checks in the order in which they are made. Those that the looking itself makes are not among them."""

from collections.abc import Callable, Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import (
    added_tokens_are_new,
    chat_template_renders,
    columns_have_values,
    columns_reach_the_rewards,
    completions_have_the_shape,
    data_gives_steps,
    environment_resets,
    evaluation_is_unseen,
    gold_answers_score_one,
    padding_is_a_token_of_its_own,
    played_turns_fit,
    prompts_differ,
    prompts_end_with_a_question,
    prompts_fit,
    prompts_say_something,
    reward_models_are_not_tried,
    rewards_are_fast,
    rewards_are_given,
    rewards_are_numbers,
    rewards_leave_the_process_alive,
    rewards_repeat_themselves,
    rewards_return,
    rewards_teach,
    rollout_is_not_tried,
    stop_tokens_exist,
    stops_can_be_written,
    tools_answer,
    tools_can_be_described,
    tools_leave_the_process_alive,
    tools_say_something,
    turn_ends_where_generation_does,
)

CHECKS: tuple[Callable[[Seen], Iterator[Finding]], ...] = (
    data_gives_steps.check,
    prompts_say_something.check,
    prompts_differ.check,
    prompts_end_with_a_question.check,
    prompts_fit.check,
    evaluation_is_unseen.check,
    columns_reach_the_rewards.check,
    columns_have_values.check,
    chat_template_renders.check,
    turn_ends_where_generation_does.check,
    stops_can_be_written.check,
    stop_tokens_exist.check,
    added_tokens_are_new.check,
    padding_is_a_token_of_its_own.check,
    rewards_return.check,
    rewards_leave_the_process_alive.check,
    rewards_are_numbers.check,
    completions_have_the_shape.check,
    rewards_teach.check,
    gold_answers_score_one.check,
    rewards_are_given.check,
    rewards_repeat_themselves.check,
    rewards_are_fast.check,
    reward_models_are_not_tried.check,
    tools_can_be_described.check,
    environment_resets.check,
    tools_answer.check,
    tools_leave_the_process_alive.check,
    tools_say_something.check,
    played_turns_fit.check,
    rollout_is_not_tried.check,
)


def faults_of(seen: Seen) -> list[Finding]:
    """All faults, those of the looking first."""
    return [*seen.faults, *(fault for check in CHECKS for fault in check(seen))]
