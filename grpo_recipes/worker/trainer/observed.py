"""TRL's trainer, with everything that grpo-run adds to a training around its members.

`ObservedTrainer` overrides the members of contract/seams.py. Each calls TRL's own method inside the layers that the run
has there, in the order of order.py. An observer looks at the result; what surrounds a call can change what TRL meets in
it, a changer also its arguments and its result. A member that TRL lacks, or that has other parameters, another result
or other calls than the worker relies on, stops the run by name.
"""

import functools
import inspect
import math
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Any

from trl import GRPOTrainer

from grpo_recipes.contract.metric_names import CLIPPED_RATIO, MEAN_LENGTH, REWARD, REWARD_STD
from grpo_recipes.contract.metrics import REWARDS
from grpo_recipes.contract.seams import FIGURES, HABITS, OF_TOOLS, SEAMS, VALUES, Seam, is_in, seams_of
from grpo_recipes.worker._shared.library import micro_batches_per_generation, vllm_client, vllm_engine
from grpo_recipes.worker._shared.replacing import Refused, refuse_unknown_member, replace
from grpo_recipes.worker.trainer.order import ORDER, position

Method = Callable[..., Any]
Undo = Callable[[], None]
RELEASE = version("trl")
_TRAINED = "micro-batch is trained"
_OF_TRAINER: dict[str, Callable[[Any], Any]] = {
    "model": lambda trainer: trainer.model,
    "accelerator": lambda trainer: trainer.accelerator,
    "vllm_generation": lambda trainer: trainer.vllm_generation,
    "engine": vllm_engine,
    "client": vllm_client,
}


def does(habit: str) -> bool:
    """Whether the installed release of TRL has a habit of the table."""
    return is_in(RELEASE, HABITS[habit], "")


class Seams:
    """The members of one trainer by event, and the layers of its run around them.

    The functions that add a layer return one that removes it. Each raises Refused if the member is not as in the table.
    own: what modules of the worker keep with the trainer.
    """

    def __init__(self, trainer: Any) -> None:
        self.own: dict[str, Any] = {}
        self._trainer = trainer
        self._seams = {seam.event: seam for seam in seams_of(RELEASE)}
        self._layers: dict[str, list[tuple[int, Method]]] = {event: [] for event in ORDER}
        self._methods: dict[str, Method] = {}
        self._calls: Counter[str] = Counter()  # in training

    def has(self, event: str) -> bool:
        """Whether this release of TRL has the event."""
        return event in self._seams

    def change(self, event: str, place: str, layer: Method) -> Undo:
        """Adds a layer that may change anything: `layer(call, *given, **named)`, which continues with `call`."""
        self._attach(event)
        entry, layers = (position(event, place), layer), self._layers[event]
        layers.append(entry)
        layers.sort(key=lambda pair: pair[0])
        return lambda: layers.remove(entry) if entry in layers else None

    def observe(self, event: str, place: str, look: Method) -> Undo:
        """Adds an observer, `look(result, *given, **named)`, which is called after the member."""

        def layer(call: Method, *given: Any, **named: Any) -> Any:
            result = call(*given, **named)
            look(result, *given, **named)
            return result

        return self.change(event, place, layer)

    def surround(self, event: str, place: str, around: Callable[[], AbstractContextManager[Any]]) -> Undo:
        """Adds a context manager around each call."""

        def layer(call: Method, *given: Any, **named: Any) -> Any:
            with around():
                return call(*given, **named)

        return self.change(event, place, layer)

    def inside(self, event: str, place: str) -> Method:
        """Returns the member with the layers inside of a place only."""
        self._attach(event)
        limit = position(event, place)

        def within(*given: Any, **named: Any) -> Any:
            return self._call(event, self._methods[event], [pair for pair in self._layers[event] if pair[0] > limit])(
                *given, **named
            )

        return within

    @staticmethod
    def position(event: str, place: str) -> int:
        """Returns the number of a place in order.py. Raises KeyError for one that is not there."""
        return position(event, place)

    def run(self, event: str, method: Method, *given: Any, **named: Any) -> Any:
        """Calls TRL's method inside the layers of the event."""
        if self._trainer.model.training or event == _TRAINED:  # which switches the model to training
            self._calls[event] += 1
        return self._call(event, method, self._layers[event])(*given, **named)

    def does(self, habit: str) -> bool:
        """Whether this release of TRL has a habit of the table."""
        return does(habit)

    def value(self, name: str) -> Any:
        """Returns a private value of the trainer; None if this release has none of that name."""
        if not is_in(RELEASE, *VALUES[name]):
            return None
        if not hasattr(self._trainer, name):
            raise _refused(name, "GRPOTrainer has no such value")
        return getattr(self._trainer, name)

    def figures(self, mode: str = "train") -> Any:
        """Returns TRL's lists of figures for the next line, by name. mode: train or eval; older releases share them."""
        figures = self.value("_metrics")
        return figures[mode] if does("figures of training are apart") else figures

    def refuse_without(self, *names: str) -> None:
        """Raises Refused if TRL has not logged these figures since the last line, of those that this release has."""
        for name in names:
            if is_in(RELEASE, FIGURES[name]) and not self.figures().get(name):
                raise _refused(f"figure {name}", "the first step did not log it, or under another name")

    def table(self) -> Any:
        """Returns the columns of TRL's next table of completions by name; {} for a release without one."""
        return next((table for name in ("_logs", "_textual_logs") if (table := self.value(name)) is not None), {})

    def whole(self, event: str) -> Method:
        """Returns the member with all its layers."""
        whole: Method = getattr(self._trainer, self._seams[event].member)
        return whole

    def refuse_other_calls(self, *, redraws: bool) -> None:
        """Raises Refused after the first step if TRL called a member at other times, or logged less, than relied on.

        redraws: groups are redrawn, so that completions are generated and judged more than once.
        """
        of_step = self._trainer.args.gradient_accumulation_steps
        generations = math.ceil(of_step / _batches_of_generation(self._trainer.args))
        has_rollout = getattr(self._trainer, "rollout_func", None) is not None  # in place of TRL's own turns
        for event, seam in self._seams.items():
            if event not in self._methods or not self._layers[event]:
                continue
            if has_rollout and seam.rate == "in each generation":
                continue
            calls, due = self._calls[event], of_step if seam.rate == "once a micro-batch" else generations
            may_be_more = seam.rate == "in each generation" or (redraws and seam.event != "completions are made")
            if seam.rate and (calls < due or (calls > due and not may_be_more)):
                raise _refused(seam.member, f"the first step called it {calls} times, and grpo-run relies on {due}")
        if self._layers["tools are called"]:
            for name in OF_TOOLS:
                self.value(name)
        self.refuse_without(REWARD, REWARD_STD, MEAN_LENGTH, CLIPPED_RATIO)
        if not any(name.startswith(REWARDS) for name in self.figures()):
            raise _refused("figures of single rewards", f"the first step logged none that begins with {REWARDS}")

    def _attach(self, event: str) -> None:
        """Checks the member of an event, and puts the layers around it if its owner is not the trainer."""
        if event in self._methods:
            return
        seam = self._seams.get(event)
        if seam is None:
            raise _refused(event, f"trl {RELEASE} has no member for it")
        owner = self._trainer if seam.owner == "trainer" else _OF_TRAINER[seam.owner](self._trainer)
        self._methods[event] = _checked(owner, seam)
        if seam.owner != "trainer":
            layered = functools.wraps(self._methods[event])(functools.partial(self.run, event, self._methods[event]))
            replace(owner, seam.member, layered)

    def _call(self, event: str, method: Method, layers: list[tuple[int, Method]]) -> Method:
        call = functools.partial(_with_checked_result, self._seams[event], method) if layers else method
        for _, layer in reversed(layers):
            call = functools.partial(layer, call)
        return call


class ObservedTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose members pass through `seams`. The members are overridden below, as far as TRL has them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.seams = Seams(self)
        super().__init__(*given, **named)


def _override(member: str, events: list[str]) -> None:
    @functools.wraps(getattr(GRPOTrainer, member))
    def overriding(self: Any, *given: Any, **named: Any) -> Any:
        call = getattr(super(ObservedTrainer, self), member)
        for event in reversed(events):
            call = functools.partial(self.seams.run, event, call)
        return call(*given, **named)

    setattr(ObservedTrainer, member, overriding)


def _override_all() -> None:
    members: dict[str, list[str]] = {}
    for seam in seams_of(RELEASE):
        if seam.owner == "trainer" and hasattr(GRPOTrainer, seam.member):
            members.setdefault(seam.member, []).append(seam.event)
    for member, events in members.items():
        _override(member, events)


_override_all()


def _checked(owner: Any, seam: Seam) -> Method:
    """Returns the owner's method. Raises Refused if it is missing, doubled or takes other parameters."""
    of_library = GRPOTrainer if seam.owner == "trainer" else owner
    kind = "GRPOTrainer" if seam.owner == "trainer" else type(owner).__name__
    if not hasattr(of_library, seam.member):
        raise _refused(seam.member, f"{kind} has no such member")
    others = {other.member for other in SEAMS if other.event == seam.event and other.owner == seam.owner}
    doubled = [name for name in others - {seam.member} if hasattr(of_library, name)]
    if doubled:
        raise _refused(seam.member, f"{kind} also has {doubled[0]}, which it replaced")
    method = getattr(of_library, seam.member)
    parameters = inspect.signature(method).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    is_open = bool(kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL})
    missing = [name for name in seam.takes if name not in parameters]
    if missing and not is_open:
        raise _refused(seam.member, f"it takes no {missing[0]}, but {', '.join(parameters)}")
    bound: Method = getattr(super(ObservedTrainer, owner), seam.member) if seam.owner == "trainer" else method
    return bound


def _with_checked_result(seam: Seam, method: Method, *given: Any, **named: Any) -> Any:
    result = method(*given, **named)
    if isinstance(seam.gives, int):
        if not isinstance(result, tuple) or len(result) < seam.gives:
            parts = f"{len(result)} parts" if isinstance(result, tuple) else f"one {type(result).__name__}"
            raise _refused(seam.member, f"it returns {parts}, and grpo-run relies on {seam.gives} or more")
    elif seam.gives:
        missing = [key for key in seam.gives if not isinstance(result, dict) or key not in result]
        if missing:
            raise _refused(seam.member, f"its result has no {missing[0]}")
    return result


def _batches_of_generation(arguments: Any) -> int:
    """Returns the micro-batches that share a generation; before steps_per_generation each has its own."""
    return micro_batches_per_generation(arguments) if hasattr(arguments, "steps_per_generation") else 1


def _refused(member: str, because: str) -> Refused:
    return refuse_unknown_member(member, because, f"trl {RELEASE} is installed")
