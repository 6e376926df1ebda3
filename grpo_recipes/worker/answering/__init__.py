"""The trained model answers prompts, without a trainer."""
