"""`grpo-run report`: run folders as one self-contained HTML file."""
