"""Rows that the tasks of a package generate, or that come with one of TRL's own environments."""

PACKAGE = "reasoning-gym"
COLUMNS = ("question", "answer", "task", "task_config", "metadata")
ANSWER_IN = ("completion", "last_line", "answer_tag")

OPENREWARD, HARBOR = "trl.experimental.openreward:OpenRewardSpec", "trl.experimental.harbor:HarborSpec"
SPECS = {OPENREWARD: "openreward", HARBOR: "harbor"}
"""TRL's own environments with the package that each needs. One object makes environments, and provides their rows."""
