"""Services that a run reports to, under the names of metrics.jsonl."""
