"""A declarative YAML recipe runner for GRPO training with TRL."""

__version__ = "0.1.0"
