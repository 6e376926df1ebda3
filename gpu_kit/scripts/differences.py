"""`python differences.py ONE OTHER`: the tensor of two safetensors files that differs most, as a line of JSON.

A difference is the norm of what is between two tensors, in parts of the norm of all of them: what is a share of nothing
in a tensor without a gradient is nothing.
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
