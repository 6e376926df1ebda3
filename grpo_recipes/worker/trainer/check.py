"""One thing that the plan says and the live trainer shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """A value of the plan and of the trainer. because, fix: said when they differ."""

    name: str
    plan: object
    live: object
    because: str = "training it would be another experiment than the plan's"
    fix: str = "plan again on this machine, with the packages that are installed here"

    @property
    def ok(self) -> bool:
        """Whether both say the same."""
        return self.plan == self.live
