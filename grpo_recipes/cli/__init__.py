"""The commands of grpo-run, one file each."""
