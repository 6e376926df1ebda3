"""Compares the gradient of the newest TRL with that of an older one."""

import os

from gpu_kit.bench import Bench, LeftOut

MOST_OFF = 1e-5


def run(bench: Bench) -> None:
    if bench.older is None or not (bench.older / "trl").is_dir():
        raise LeftOut("no packages of an older stack; --older FOLDER names them")
    model = str(bench.model("0.5B"))
    bench.folder.mkdir(parents=True, exist_ok=True)
    new, old = bench.folder / "new.safetensors", bench.folder / "old.safetensors"
    of_new = bench.measured("gradient.py", model, str(new), "sdpa", "float32", bench.scale.device)
    behind = os.environ.get("PYTHONPATH", "")
    of_old = bench.measured(
        *("gradient.py", model, str(old), "sdpa", "float32", bench.scale.device),
        PYTHONPATH=os.pathsep.join(filter(None, [str(bench.older), behind])),
    )
    bench.figure("new", of_new)
    bench.figure("old", of_old)
    found = bench.measured("differences.py", str(new), str(old))
    bench.figure("largest difference of a tensor", found)
    bench.holds(of_new["trl"] != of_old["trl"], f"both are trl {of_new['trl']}")
    bench.holds(found["relative"] <= MOST_OFF, f"{found['tensor']} differs by {found['relative']:.1e}")
