"""Linear modules on a tape: plain, cast by mixed precision, in four bits, with an adapter."""

from grpo_recipes.memory.tape import Tape, TapeTensor
from grpo_recipes.memory.update import Adapter, Update


def linear(tape: Tape, update: Update, name: str, read: TapeTensor, inputs: int, outputs: int) -> TapeTensor:
    """A linear module of a layer with its adapter, where it has one."""
    result = _four_bits(tape, update, read, inputs, outputs) if update.four_bits else None
    result = result or product(tape, update, read, inputs, outputs, update.trains_weights())
    if update.adapter is None or not update.adapter.adapts(name):
        return result
    return _adapted(tape, update, update.adapter, read, result, (inputs, outputs))


def product(tape: Tape, update: Update, read: TapeTensor, inputs: int, outputs: int, trains: bool) -> TapeTensor:
    """Tokens times a weight as it is loaded.

    Mixed precision casts the input for each module anew, and a weight once in a forward pass if it is trained (torch
    2.13.0, aten/src/ATen/autocast_mode.cpp: cached_cast); autograd keeps the copies. The gradient of a weight has the
    type that was computed in, and is cast to the weight's.
    """
    tokens, width = read.size // read.width // inputs, update.width
    cast = tape.cast(read, width)
    keeps = [cast] if trains else []
    copied = inputs * outputs * width if update.casts_weights else 0
    if copied and read.needs_gradient:
        keeps.append(tape.tensor(inputs * outputs, width))
        copied = 0
    backward = inputs * outputs * (width + (update.weight_width if width != update.weight_width else 0))
    return tape.made(
        [cast], tokens * outputs, width, keeps=keeps, trains=trains, forward=copied, backward=backward if trains else 0
    )


def _four_bits(tape: Tape, update: Update, read: TapeTensor, inputs: int, outputs: int) -> TapeTensor:
    """Four-bit weights, made whole for each product, forward and back.

    Source: bitsandbytes 0.50.2, nn/modules.py: Linear4bit.forward; autograd/_functions.py: MatMul4Bit; and
    backends/cuda/ops.py: more than some hundred tokens are multiplied with a dequantized copy.
    """
    assert update.four_bits is not None
    tokens, width = read.size // read.width // inputs, update.four_bits.compute_width
    whole = inputs * outputs * width
    back = whole + (inputs * outputs * read.width if width != read.width else 0)
    result = tape.made([tape.cast(read, width)], tokens * outputs, width, forward=whole, backward=back)
    result = tape.cast(result, read.width)
    has_adapter = update.adapter is not None
    return tape.made([result], tokens * outputs, read.width, passes=True) if has_adapter else result  # peft clones it


def _adapted(
    tape: Tape, update: Update, adapter: Adapter, read: TapeTensor, result: TapeTensor, shape: tuple[int, int]
) -> TapeTensor:
    """A LoRA adapter beside a module, in float32 unless autocast computes it.

    Source: peft 0.21.2, tuners/lora/layer.py: Linear.forward, which casts the input to the adapter's type; and
    tuners/lora/bnb.py: Linear4bit.forward, which does so without autocast alone.
    """
    inputs, outputs = shape
    tokens = read.size // read.width // inputs
    width = update.autocast_width or adapter.width
    is_cast = update.four_bits is None or update.autocast_width is None
    argument = read
    given = read = tape.cast(read, adapter.width) if is_cast else read
    if adapter.has_dropout:
        mask = tape.tensor(tokens * inputs, 1)
        read = tape.made([read], tokens * inputs, read.width, keeps=[mask])
    read = tape.cast(read, width)
    small, wide = adapter.r * inputs, adapter.r * outputs
    down = tape.made([read], tokens * adapter.r, width, keeps=[read], trains=True, backward=small * (width + 4))
    up = tape.made([down], tokens * outputs, width, keeps=[down], trains=True, backward=wide * (width + 4))
    scaled = tape.made([up], tokens * outputs, width, holds=[argument, given, result])
    scaled = tape.cast(scaled, result.width) if update.four_bits else scaled
    total = tape.made(
        [result, scaled], tokens * outputs, max(result.width, width), passes=True, holds=[argument, given]
    )
    return tape.cast(total, result.width)  # the variables of both forward methods hold what they were given
