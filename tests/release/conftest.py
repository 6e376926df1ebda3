"""Makes the scripts that read the package index importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "facts"))
