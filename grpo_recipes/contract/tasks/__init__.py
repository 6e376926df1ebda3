"""Rows that tasks of a package make, or one of TRL's own environments."""

PACKAGE = "reasoning-gym"
COLUMNS = ("question", "answer", "task", "task_config", "metadata")
ANSWER_IN = ("completion", "last_line", "answer_tag")

OPENREWARD, HARBOR = "trl.experimental.openreward:OpenRewardSpec", "trl.experimental.harbor:HarborSpec"
SPECS = {OPENREWARD: "openreward", HARBOR: "harbor"}
"""TRL's own environments, each with the package that it needs. One object makes environments, and brings their rows."""
