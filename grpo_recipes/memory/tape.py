"""Records the tensors of a forward pass and what autograd keeps of them, in bytes."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class TapeTensor(NamedTuple):
    """A tensor on a tape: its index, its bytes, the bytes of one element, and whether it has a gradient."""

    place: int
    size: int
    width: int
    needs_gradient: bool


class _Step(NamedTuple):
    """One operation: the indices of the tensors that it reads, makes, and keeps for its backward pass.

    held: tensors that a variable of the code still holds. forward, backward: additional bytes while it runs. passes:
    its gradient is passed on unchanged, in the same storage.
    """

    inputs: tuple[TapeTensor, ...]
    outputs: tuple[TapeTensor, ...]
    held: frozenset[int]
    kept: frozenset[int]
    forward: int
    backward: int
    passes: bool


class Held(NamedTuple):
    """What a part of a model holds, in bytes.

    kept: for the backward pass, from the end of the forward pass. forward: the peak of a forward pass that keeps it.
    passing: of one that keeps nothing. backward: the peak of the backward pass, with the kept tensors and the incoming
    gradient. keeps_input: the input tensor is among the kept ones.
    """

    kept: int
    forward: int
    passing: int
    backward: int
    keeps_input: bool


class Decoder(NamedTuple):
    """What a decoder's or a tower's layers hold: the first, each later one, the last norm; and what all share."""

    first: Held
    other: Held
    last_norm: Held
    layers: int
    between: int
    shared: int
    is_checkpointing: bool

    def kept(self) -> int:
        """Returns the bytes kept from the end of the forward pass for the backward pass."""
        if self.is_checkpointing:
            return self.layers * self.between + self.last_norm.kept + self.shared
        return self.first.kept + (self.layers - 1) * self.other.kept + self.last_norm.kept

    def embedding_bytes(self) -> int:
        """Returns the first hidden states, which a model variable holds if nothing keeps them."""
        return 0 if self.is_checkpointing or self.first.keeps_input else self.between

    def variables(self) -> int:
        """Returns the bytes that only variables hold at the decoder's end: first, last and normed states."""
        return self.embedding_bytes() + self.between + (0 if self.last_norm.keeps_input else self.between)

    def forward(self) -> int:
        """Returns the peak of the forward pass."""
        before = (self.layers - 1) * self.between if self.is_checkpointing else self.kept_before_last()
        layer = self.other.passing if self.is_checkpointing else self.other.forward
        in_norm = self.kept() - self.last_norm.kept + self.last_norm.forward
        return self.shared + self.embedding_bytes() + max(before + layer, in_norm)

    def kept_before_last(self) -> int:
        """Returns the bytes that all layers but the last keep."""
        return self.first.kept + (self.layers - 2) * self.other.kept if self.layers > 1 else 0

    def backward(self, gradients_of_a_layer: int) -> int:
        """Returns the peak of the backward pass; gradients_of_a_layer: allocated as it proceeds, 0 if all exist
        already.
        """
        if self.is_checkpointing:
            again = self.between + max(self.other.forward, self.other.backward)
            steps = (((self.layers - 1) * self.between, 1), (0, self.layers))
            layers = [held + again + many * gradients_of_a_layer for held, many in steps]
            return self.shared + max(*layers, self.layers * self.between + self.last_norm.backward)
        at_last = self.kept_before_last() + self.other.backward + gradients_of_a_layer
        at_first = self.first.backward + self.layers * gradients_of_a_layer
        at_norm = self.kept() - self.last_norm.kept + self.last_norm.backward
        return max(at_last, at_first, at_norm)


class Tape:
    """Operations in order. Source for what each keeps: torch 2.13.0, tools/autograd/derivatives.yaml."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._storages: list[int] = []
        self._steps: list[_Step] = []

    def tensor(self, count: int, width: int, needs_gradient: bool = False) -> TapeTensor:
        """Adds a tensor that no operation made: an input, or the copy of a weight."""
        self._sizes.append(count * width)
        self._storages.append(len(self._storages))
        return TapeTensor(len(self._sizes) - 1, count * width, width, needs_gradient)

    def make(
        self,
        inputs: Sequence[TapeTensor],
        count: int,
        width: int,
        *,
        keeps: Sequence[TapeTensor] = (),
        keeps_result: bool = False,
        trains: bool = False,
        forward: int = 0,
        backward: int = 0,
        passes: bool = False,
        holds: Sequence[TapeTensor] = (),
    ) -> TapeTensor:
        """Adds the tensor that an operation makes from others. trains: the operation has a trained weight."""
        held = frozenset(self._storages[value.place] for value in holds)
        needs_gradient = trains or any(value.needs_gradient for value in inputs)
        output = self.tensor(count, width, needs_gradient)
        saved = {self._storages[value.place] for value in keeps} | ({output.place} if keeps_result else set())
        self._steps.append(
            _Step(tuple(inputs), (output,), held, frozenset(saved if needs_gradient else ()), forward, backward, passes)
        )
        return output

    def parts(self, value: TapeTensor, counts: Sequence[int]) -> tuple[TapeTensor, ...]:
        """Adds parts of a tensor in its own storage, by one operation, whose gradient is one of the whole tensor."""
        parts = tuple(self.tensor(count, value.width, value.needs_gradient) for count in counts)
        for part in parts:
            self._storages[part.place] = self._storages[value.place]
        self._steps.append(_Step((value,), parts, frozenset(), frozenset(), 0, 0, False))
        return parts

    def cast(self, value: TapeTensor, width: int) -> TapeTensor:
        """Returns the tensor in a different type; the tensor itself if it already has that type."""
        return value if value.width == width else self.make([value], value.size // value.width, width)

    def measure(self) -> Held:
        """Returns the memory of the operations, forward and backward."""
        saved = set[int]().union(*(step.kept for step in self._steps))
        forward = max(self._forward(saved))
        backward = self._backward(saved) if self._steps[-1].outputs[0].needs_gradient else 0
        size, passing = sum(self._sizes[index] for index in saved), max(self._forward(set()))
        return Held(size, forward, passing, backward, self._steps[0].inputs[0].place in saved)

    def _forward(self, saved: set[int]) -> Iterator[int]:
        """Returns the bytes during each operation."""
        last = {self._storages[value.place]: at for at, step in enumerate(self._steps) for value in step.inputs}
        last |= {
            index: max(at, last.get(index, 0)) for at, step in enumerate(self._steps) for index in step.kept | step.held
        }
        last[self._steps[-1].outputs[0].place] = len(self._steps)
        alive = {self._steps[0].inputs[0].place}
        for at, step in enumerate(self._steps):
            alive |= {self._storages[value.place] for value in (*step.inputs, *step.outputs)} | step.kept
            yield sum(self._sizes[index] for index in alive) + step.forward
            alive = {index for index in alive if index in saved or last.get(index, -1) > at}

    def _backward(self, saved: set[int]) -> int:
        """Returns the peak of the operations in reverse, each freeing what it alone had kept."""
        gradients = _Gradients()
        gradients.add(self._steps[-1].outputs[0], None)
        holders = {index: sum(index in step.kept for step in self._steps) for index in saved}
        left = sum(self._sizes[index] for index in saved)
        most = left + gradients.size
        for step in reversed(self._steps):
            come = [output for output in step.outputs if gradients.has(output)]
            if not come:
                continue
            for value in step.inputs:
                if value.needs_gradient:
                    is_handed_on = step.passes and value.size == come[0].size
                    gradients.add(value, come[0] if is_handed_on else None)
            most = max(most, left + gradients.most + step.backward)
            for output in come:
                gradients.drop(output)
            for index in step.kept:
                holders[index] -= 1
                left -= self._sizes[index] if not holders[index] else 0
        return most


class _Gradients:
    """Live gradients: the storage of each tensor's gradient, and how many tensors share it.

    A second gradient of a tensor is added to the first in place, unless a different tensor shares it: then the sum is
    new.
    Source: torch 2.13.0, torch/csrc/autograd/input_buffer.cpp.
    """

    def __init__(self) -> None:
        self.size = self.most = 0
        self._of: dict[int, int] = {}
        self._sharers: dict[int, int] = {}
        self._sizes: dict[int, int] = {}

    def has(self, value: TapeTensor) -> bool:
        """Whether a tensor has a gradient yet."""
        return value.place in self._of

    def add(self, value: TapeTensor, shared_with: TapeTensor | None) -> None:
        """Adds a gradient of a tensor: another tensor's storage, or a new one."""
        if shared_with is None:
            storage = len(self._sizes)
            self._sizes[storage], self._sharers[storage] = value.size, 0
            self._grow(value.size)
        else:
            storage = self._of[shared_with.place]
        held = self._of.get(value.place)
        if held is None:
            self._of[value.place] = storage
            self._sharers[storage] += 1
            return
        if self._sharers[held] == 1:
            self._free(storage)
            return
        self._sharers[held] -= 1
        total = len(self._sizes)
        self._sizes[total], self._sharers[total] = value.size, 1
        self._of[value.place] = total
        self._grow(value.size)
        self._free(storage)

    def drop(self, value: TapeTensor) -> None:
        """Frees the gradient of a tensor after its use."""
        storage = self._of.pop(value.place)
        self._sharers[storage] -= 1
        self._free(storage)
        self.most = self.size

    def _grow(self, size: int) -> None:
        self.size += size
        self.most = max(self.most, self.size)

    def _free(self, storage: int) -> None:
        if not self._sharers[storage] and self._sizes[storage]:
            self.size -= self._sizes[storage]
            self._sizes[storage] = 0
