"""Makes gpu_kit importable; it is not part of the installed package."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
