"""The environment of the guess recipe."""

from typing import Any


class Game:
    """A number of a range is to be found; each guess is answered."""

    def __init__(self, most: int) -> None:
        self.most, self.number, self.guesses, self.is_solved = most, 0, 0, False

    def reset(self, number: str, **row: Any) -> None:
        """Begins a game about the number of a row."""
        self.number, self.guesses, self.is_solved = int(number), 0, False

    def guess(self, number: int) -> str:
        """Guesses the number.

        Args:
            number: The guess.

        Returns:
            higher or lower, as the number is, or right.
        """
        if self.is_solved or self.guesses == self.most:
            raise ValueError("the game is over")
        self.guesses += 1
        self.is_solved = int(number) == self.number
        if self.is_solved:
            return "right"
        return "higher" if self.number > int(number) else "lower"


def score(environments: list[Game], **_: Any) -> list[float]:
    """1 for a first guess that is right, 0.1 less for each further one, and 0 for a number that was not found."""
    return [1.0 - 0.1 * (game.guesses - 1) if game.is_solved else 0.0 for game in environments]
