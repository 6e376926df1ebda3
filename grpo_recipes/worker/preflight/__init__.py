"""Data, tokenizer and rewards of a plan looked at without its model. Each check is a file in checks/."""
