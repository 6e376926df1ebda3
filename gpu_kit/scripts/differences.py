"""`python differences.py ONE OTHER`: prints the tensor that differs most between two safetensors files, as JSON.

A difference is the norm of the two tensors' difference relative to the norm of all tensors, so a tensor without a
gradient counts as zero.
"""

import json
import sys

from safetensors.torch import load_file

one, other = load_file(sys.argv[1]), load_file(sys.argv[2])
assert one.keys() == other.keys(), sorted(one.keys() ^ other.keys())
whole = sum(float(tensor.double().square().sum()) for tensor in one.values()) ** 0.5
apart = {name: float((one[name].double() - other[name].double()).norm()) / whole for name in one}
worst = max(apart, key=lambda name: apart[name])
together = sum(share**2 for share in apart.values()) ** 0.5
print(json.dumps({"tensor": worst, "relative": apart[worst], "all": together, "norm": whole, "tensors": len(one)}))
