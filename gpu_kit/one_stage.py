"""`python -m gpu_kit.one_stage STAGE WORK DEVICE [OLDER]`: runs one stage in this process; writes to its folder."""

import sys
import traceback
from pathlib import Path

from gpu_kit.bench import Bench, Broken, LeftOut
from gpu_kit.scale import Scale
from gpu_kit.stages.catalog import STAGES


def main() -> None:
    name, work, device, *older = sys.argv[1:]
    assert device in ("cuda", "cpu")
    bench = Bench(name, Scale(device), Path(work), Path(older[0]) if older else None)
    try:
        STAGES[name].run(bench)
    except LeftOut as reason:
        bench.result.status, bench.result.reason = "left out", str(reason)
    except Broken as reason:
        bench.result.status, bench.result.reason = "failed", str(reason)
    except Exception:
        bench.result.status, bench.result.reason = "failed", traceback.format_exc()[-2500:]
    bench.write()


if __name__ == "__main__":
    main()
