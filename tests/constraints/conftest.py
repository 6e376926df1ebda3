"""Makes the programs of constraints/ importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "constraints"))
