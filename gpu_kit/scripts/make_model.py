"""`python make_model.py FOLDER DEVICE SHAPE`: writes a full-size Qwen2 with random weights and the small tokenizer.

SHAPE is JSON, the fields of scale.Shape. Nothing is downloaded. The model cannot learn anything, but has the same
number and size of layers as the real one, and it answers in the 58 tokens that the tokenizer knows: their embeddings
share a direction that passes through the layers almost unchanged, and the output layer favours it. Completions
therefore contain text, differ, and sometimes end by themselves.
"""

import json
import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

TOKENIZER = Path(__file__).resolve().parents[2] / "recipes" / "quickstart" / "model"
SEED = 17
APART = 26.0
"""The gap between logits of known and unknown tokens: 150,000 unknown ones have less than a one-in-a-million chance."""
OWN = 0.28
"""A token's own part of its embedding, relative to the shared part: each token most likely repeats, and with this value
e times as likely as any other follows."""
ADDED = 0.3
"""The sum of all layers' contributions to an embedding, as a share of it."""
SHARD = 4 * 2**30


class _Weights:
    """Named tensors, drawn on a device."""

    def __init__(self, shape: dict[str, Any], known: int, device: str) -> None:
        self.shape, self.known, self.device = shape, known, device
        self.generator = torch.Generator(device).manual_seed(SEED)
        self.direction = torch.nn.functional.normalize(self._normal(shape["hidden"]), dim=0)
        self.length = APART / 2 / math.sqrt(shape["hidden"])

    def _normal(self, *size: int) -> torch.Tensor:
        return torch.randn(*size, device=self.device, generator=self.generator)

    def matrix(self, outputs: int, inputs: int, std: float) -> torch.Tensor:
        """A linear layer."""
        return (self._normal(outputs, inputs) * std).bfloat16()

    def of_tokens(self) -> torch.Tensor:
        """Returns embeddings, or an output layer: known tokens on one side of the direction, the rest on the other.

        The output of the last norm has the length sqrt(hidden) and is nearly parallel to the direction.
        """
        hidden = self.shape["hidden"]
        rows = self._normal(self.shape["vocabulary"], hidden) * (OWN * self.length / math.sqrt(hidden))
        rows[: self.known] += self.length * self.direction
        rows[self.known :] -= self.length * self.direction
        return rows.bfloat16()

    def layer(self, number: int) -> Iterator[tuple[str, torch.Tensor]]:
        """Yields the tensors of a decoder layer."""
        shape, name = self.shape, f"model.layers.{number}"
        hidden, wide, kv = shape["hidden"], shape["intermediate"], shape["hidden"] * shape["kv_heads"] // shape["heads"]
        small = ADDED * self.length / math.sqrt(2 * shape["layers"] * hidden)
        for word, outputs in (("q", hidden), ("k", kv), ("v", kv)):
            yield f"{name}.self_attn.{word}_proj.weight", self.matrix(outputs, hidden, 1 / math.sqrt(hidden))
            yield f"{name}.self_attn.{word}_proj.bias", (self._normal(outputs) * 0.02).bfloat16()
        yield f"{name}.self_attn.o_proj.weight", self.matrix(hidden, hidden, small / math.sqrt(hidden))
        yield f"{name}.mlp.gate_proj.weight", self.matrix(wide, hidden, 1 / math.sqrt(hidden))
        yield f"{name}.mlp.up_proj.weight", self.matrix(wide, hidden, 1 / math.sqrt(hidden))
        yield f"{name}.mlp.down_proj.weight", self.matrix(hidden, wide, small / math.sqrt(wide / 4))
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{name}.{norm}.weight", torch.ones(hidden, device=self.device).bfloat16()

    def all(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yields every tensor of the model."""
        yield "model.embed_tokens.weight", self.of_tokens()
        for number in range(self.shape["layers"]):
            yield from self.layer(number)
        yield "model.norm.weight", torch.ones(self.shape["hidden"], device=self.device).bfloat16()
        if not self.shape["tied"]:
            yield "lm_head.weight", self.of_tokens()


def config(shape: dict[str, Any]) -> dict[str, Any]:
    """Returns the contents of config.json in the form that transformers 4 and 5 both read."""
    shipped = json.loads((TOKENIZER / "config.json").read_text())
    sizes = {
        "vocab_size": shape["vocabulary"],
        "hidden_size": shape["hidden"],
        "intermediate_size": shape["intermediate"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "max_position_embeddings": 32_768,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": shape["tied"],
        "torch_dtype": "bfloat16",
    }
    return shipped | sizes


def save(weights: _Weights, folder: Path) -> None:
    """Writes the weights in files of a few GiB, with their index."""
    places: dict[str, str] = {}
    total, held, shard = 0, 0, {}
    for name, tensor in weights.all():
        shard[name] = tensor.contiguous().cpu()
        held += tensor.nbytes
        total += tensor.nbytes
        if held > SHARD:
            _write(shard, folder, places)
            held, shard = 0, {}
    _write(shard, folder, places)
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _write(shard: dict[str, torch.Tensor], folder: Path, places: dict[str, str]) -> None:
    file = f"model-{len(set(places.values())) + 1:05}.safetensors"
    save_file(shard, folder / file, metadata={"format": "pt"})
    places.update(dict.fromkeys(shard, file))


def main() -> None:
    folder, device, shape = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for name in ("tokenizer.json", "generation_config.json"):
        shutil.copy(TOKENIZER / name, unfinished)
    settings = json.loads((TOKENIZER / "tokenizer_config.json").read_text()) | {"model_max_length": 32_768}
    (unfinished / "tokenizer_config.json").write_text(json.dumps(settings, indent=1))
    (unfinished / "config.json").write_text(json.dumps(config(shape), indent=1))
    tokens = json.loads((TOKENIZER / "tokenizer.json").read_text())
    known = len(tokens["model"]["vocab"]) + len(tokens["added_tokens"])
    save(_Weights(shape, known, device), unfinished)
    unfinished.rename(folder)


if __name__ == "__main__":
    main()
