"""Settings: every value of a run with its origin, as the phases of the resolver hand it on."""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import NamedTuple, TypeVar, overload

from grpo_recipes.contract.findings.finding import Path

FORMAT_ORIGIN = "format 1"
Default = TypeVar("Default")


class Setting(NamedTuple):
    """One value.

    key: a recipe key ("dataset.path") or a target key ("GRPOConfig.beta", "LoraConfig.r", "model_init_kwargs.dtype").
    origin: "recipes/a.yaml:12:3", "--set ...", a rule id, "format 1". why: the reason, for a decided value.
    path: where a user writes it, also when a default stands there; None for what no recipe can say.
    given: written by the user. refused: a finding was made for it, so no rule may judge by it.
    """

    key: str
    value: object
    origin: str
    why: str = ""
    path: Path | None = None
    given: bool = False
    refused: bool = False


class Settings(Mapping[str, Setting]):
    """Settings by key; never changed, only replaced."""

    __slots__ = ("_by_key",)

    def __init__(self, settings: Iterable[Setting] = ()) -> None:
        self._by_key = {setting.key: setting for setting in settings}

    @classmethod
    def _of(cls, by_key: dict[str, Setting]) -> "Settings":
        settings = cls()
        settings._by_key = by_key
        return settings

    def __getitem__(self, key: str) -> Setting:
        return self._by_key[key]

    @overload
    def get(self, key: str, default: None = None, /) -> Setting | None: ...

    @overload
    def get(self, key: str, default: Setting | Default, /) -> Setting | Default: ...

    def get(self, key: str, default: object = None, /) -> object:
        """The setting of a key, else the default. Mapping's own raises and catches an error for each absent key."""
        return self._by_key.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def items(self) -> ItemsView[str, Setting]:
        """Each key with its setting, as a dict gives them."""
        return self._by_key.items()

    def values(self) -> ValuesView[Setting]:
        """The settings, as a dict gives them."""
        return self._by_key.values()

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def having(self, settings: Iterable[Setting]) -> "Settings":
        """Settings with the given ones, which win."""
        return Settings._of({**self._by_key, **{setting.key: setting for setting in settings}})

    def without(self, keys: Iterable[str]) -> "Settings":
        """Settings without the given keys."""
        dropped = set(keys)
        return Settings._of({key: setting for key, setting in self._by_key.items() if key not in dropped})

    def under(self, owner: str) -> dict[str, object]:
        """The values of one owner by their bare names: under("LoraConfig") -> {"r": 16, ...}."""
        prefix = owner + "."
        return {key[len(prefix) :]: s.value for key, s in self._by_key.items() if key.startswith(prefix)}
