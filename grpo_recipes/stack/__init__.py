"""The stack that a recipe runs on: packages, GPUs and the processor, read from the machine or declared."""
