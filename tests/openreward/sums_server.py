"""An OpenReward server of sums on 127.0.0.1: `python sums_server.py PORT [SIGN] [DOCSTRING]`."""

import sys

from openreward.environments import Environment, Server, TextBlock, ToolOutput, tool
from pydantic import BaseModel

SIGN = sys.argv[2] if len(sys.argv) > 2 else "="
DOCSTRING = sys.argv[3] if len(sys.argv) > 3 else "Adds two numbers."


class Pair(BaseModel):
    a: int
    b: int


async def add(self, pair: Pair) -> ToolOutput:
    block = TextBlock(type="text", text=str(pair.a + pair.b))
    return ToolOutput(blocks=[block], reward=float(pair.a % 2), finished=False)


add.__doc__ = DOCSTRING


class Sums(Environment):
    add = tool(add)

    @classmethod
    def list_splits(cls):
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split):
        first = 3 if split == "train" else 40
        return [
            {"question": f"{a}+{a * b}{SIGN}", "difficulty": b} for a in range(first, first + 8) for b in range(2, 6)
        ]

    def get_prompt(self):
        return [TextBlock(type="text", text=self.task_spec["question"])]


Server([Sums]).run(host="127.0.0.1", port=int(sys.argv[1]))
