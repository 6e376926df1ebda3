"""`python -m support.tracing`: a trace as JSON on standard input, its bytes as JSON on standard output."""

import json
import sys
import warnings

from support.tracing.update import trace

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for line in sys.stdin:
        print(json.dumps(trace(json.loads(line))), flush=True)
