"""Classes and rollouts that evidence gives to TRL."""

GAME = '''
class Game:
    """A game that a look ends."""

    def __init__(self, size: int, colour: str = "red") -> None:
        self.size = size

    def reset(self, answer: str, **row: object) -> str:
        return f" The board is {self.size} wide."

    def look(self) -> str:
        """Says what there is."""
        return "the method"

    def _inner(self) -> str:
        return ""

    def get_reward(self) -> float:
        return 3.0
'''
LOOK = '''
def look() -> str:
    """Says what there is."""
    return "the tool"
'''
ROLLOUT = """
def play(prompts, trainer):
    made = trainer.processing_class.apply_chat_template(prompts, add_generation_prompt=True, return_dict=True)
    ids = made["input_ids"]
    own = [[5, 6, 7] for _ in prompts]
    return {"prompt_ids": ids, "completion_ids": own, "logprobs": None, "env_mask": [[1, 0, 0] for _ in prompts]}
"""
