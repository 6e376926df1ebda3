"""What the worker proves while it trains its first step: each file one statement, what was seen against the plan."""
