"""The trainer of the plan and its model: built, looked at while it lives, held against the plan."""
