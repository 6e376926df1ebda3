"""The settings of Python and torch that user code may change and that would change or end the run."""

import gc
import locale
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple


class ProcessSetting(NamedTuple):
    """One setting. change: what a difference means, for messages. write: restores a value; None leaves it changed."""

    change: str
    read: Callable[[], Any]
    write: Callable[[Any], object] | None


def settings() -> Iterator[ProcessSetting]:
    """Yields the settings, those of torch if it is imported. Generators of random numbers are saved here."""
    yield ProcessSetting("set the locale", lambda: locale.setlocale(locale.LC_ALL), None)
    yield ProcessSetting(
        "switched garbage collection on or off", gc.isenabled, lambda on: gc.enable() if on else gc.disable()
    )
    yield ProcessSetting("made warnings errors", _errors, _leave_errors)
    if not _has_timer():
        yield ProcessSetting("left a timer running", _has_timer, lambda _: signal.setitimer(signal.ITIMER_REAL, 0))
    torch = sys.modules.get("torch")
    if torch is not None and "torch.backends" in sys.modules:  # otherwise it is just being imported
        yield from _of_torch(torch)


def _errors() -> list[Any]:
    """The filters that turn a warning into an exception."""
    return [each for each in warnings.filters if each[0] == "error"]


def _leave_errors(known: list[Any]) -> None:
    warnings.filters[:] = [each for each in warnings.filters if each[0] != "error" or each in known]  # type: ignore[index]


def _has_timer() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _of_torch(torch: Any) -> Iterator[ProcessSetting]:
    backends = torch.backends
    yield ProcessSetting("set torch's default dtype", torch.get_default_dtype, torch.set_default_dtype)
    yield ProcessSetting(
        "set torch's default device",
        torch.get_default_device,
        lambda device: torch.set_default_device(None if device.type == "cpu" else device),
    )
    yield ProcessSetting("switched gradients on or off", torch.is_grad_enabled, torch.set_grad_enabled)
    for kind in ("cpu", "cuda") if _takes_kind(torch) else ():
        yield ProcessSetting(
            f"switched autocast on {kind} on or off",
            partial(torch.is_autocast_enabled, kind),
            partial(torch.set_autocast_enabled, kind),
        )
    yield ProcessSetting("set torch's number of threads", torch.get_num_threads, torch.set_num_threads)
    yield ProcessSetting(
        "switched torch's deterministic algorithms",
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    )
    for name in ("benchmark", "deterministic"):
        yield _attribute(f"set torch.backends.cudnn.{name}", backends.cudnn, name)
    yield _precision(torch)
    yield _seed(torch, torch)
    if torch.cuda.is_initialized():
        yield _seed(torch, torch.cuda)


def _takes_kind(torch: Any) -> bool:
    """Whether this torch asks for the kind of device; releases before 2.4 do not."""
    try:
        torch.is_autocast_enabled("cpu")
    except TypeError:
        return False
    return True


def _attribute(change: str, owner: Any, name: str) -> ProcessSetting:
    return ProcessSetting(change, lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _seed(torch: Any, device: Any) -> ProcessSetting:
    """A seed; drawing random numbers does not change it."""
    state = device.get_rng_state()
    return ProcessSetting("seeded torch's random numbers", device.initial_seed, lambda _: device.set_rng_state(state))


def _precision(torch: Any) -> ProcessSetting:
    """The precision of float32 products. torch 2.9 has a second interface, and raises in the first after its use."""
    backends = torch.backends
    own: list[Any] = []
    if hasattr(backends, "fp32_precision"):
        own = [backends, backends.cuda.matmul, backends.mkldnn.matmul, backends.cudnn.conv, backends.cudnn.rnn]

    def read() -> tuple[str, ...]:
        try:
            first = torch.get_float32_matmul_precision()
        except RuntimeError:
            first = ""
        return first, *(owner.fp32_precision for owner in own)

    def write(value: tuple[str, ...]) -> None:
        if value[0]:
            torch.set_float32_matmul_precision(value[0])
        for owner, precision in zip(own, value[1:], strict=True):
            owner.fp32_precision = precision

    return ProcessSetting("set the precision of torch's float32 products", read, write)
