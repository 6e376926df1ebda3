"""Rows that the tasks of a package generate."""

PACKAGE = "reasoning-gym"
COLUMNS = ("question", "answer", "task", "task_config", "metadata")
ANSWER_IN = ("completion", "last_line", "answer_tag")
