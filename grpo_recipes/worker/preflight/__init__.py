"""Checks a plan's data, tokenizer and rewards without its model. Each check is a file in checks/."""
