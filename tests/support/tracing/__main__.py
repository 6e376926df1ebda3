"""`python -m support.tracing`: reads a trace as JSON on standard input, writes its bytes as JSON."""

import json
import sys
import warnings

from support.tracing.update import trace

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for line in sys.stdin:
        print(json.dumps(trace(json.loads(line))), flush=True)
