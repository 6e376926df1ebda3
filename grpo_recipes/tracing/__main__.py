"""`python -m grpo_recipes.tracing`: a trace as JSON on standard input, its bytes as JSON on standard output."""

import json
import sys
import warnings

from grpo_recipes.tracing.update import trace

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for line in sys.stdin:
        print(json.dumps(trace(json.loads(line))), flush=True)
