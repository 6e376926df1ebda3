"""Small packages of source text, laid out as the libraries are, for tests that have none of them."""

from pathlib import Path
from textwrap import dedent

TRL = {
    "trl/__init__.py": "",
    "trl/trainer/__init__.py": "",
    "trl/generation/__init__.py": "",
    "trl/trainer/base_config.py": """
        from dataclasses import dataclass, field
        from transformers import TrainingArguments

        @dataclass
        class _BaseConfig(TrainingArguments):
            logging_steps: float = field(default=10, metadata={"help": "x"})
            eval_strategy: str = field(default="no")
        """,
    "trl/trainer/grpo_config.py": """
        from dataclasses import dataclass, field
        from typing import Any, ClassVar
        from .base_config import _BaseConfig

        @dataclass
        class GRPOConfig(_BaseConfig):
            _VALID: ClassVar[list[str]] = ["a"]
            beta: float = field(default=0.0)
            loss_type: str = field(default="dapo")
            scale_rewards: str = "group"
            vllm_mode: str = field(default="colocate")
            level: str = "token"
            cache_implementation: str | None = None
            reward_weights: list[float] | None = None
            kwargs: dict[str, Any] = field(default_factory=dict)
            names: list[str] = field(default_factory=lambda: ["a", "b"])
            computed: str = field(default=beta_of("x"))
            required: int
            hidden: int = field(init=False, default=-1)

            def __post_init__(self):
                super().__post_init__()
                self.scale_rewards = {True: "group", False: "none"}.get(self.scale_rewards, self.scale_rewards)
        """,
    "trl/trainer/grpo_trainer.py": """
        from .base_trainer import _BaseTrainer
        from ..generation.engine import Engine

        class GRPOTrainer(_BaseTrainer):
            def __init__(self, model: str, args=None, *, quantization_config: dict | None = None, **kwargs):
                self.kind = args.loss_type
                self.scale_rewards = args.scale_rewards
                if self.kind == "vespo" and args.level:
                    if args.level not in ["token"]:
                        raise ValueError("only with vespo")
                self.engine = Engine(model, mode=args.vllm_mode)

            def compute(self):
                if self.kind == "cispo":
                    pass
                elif self.kind in ["grpo", "dapo"]:
                    pass
                elif self.kind == "old" or self.kind == "older":
                    pass
                else:
                    raise ValueError("unknown loss")
                if self.kind in ("dapo", "grpo", "cispo"):
                    pass
                else:
                    raise ValueError("unknown loss")
                if self.args.cache_implementation == "static":
                    pass
                elif self.args.beta:
                    raise ValueError("not a closed set")
                for reward in self.rewards:
                    if self.scale_rewards in ["group", "none"]:
                        pass
                    elif self.scale_rewards == "batch":
                        pass
                    else:
                        raise ValueError("unknown scale")
        """,
    "trl/generation/engine.py": """
        class Engine:
            def __init__(self, model, mode):
                self.mode = mode
                self._start()

            def _start(self):
                if self.mode == "server":
                    pass
                elif self.mode == "colocate":
                    pass
                else:
                    raise ValueError("unknown mode")
        """,
}

TRANSFORMERS = {
    "transformers/__init__.py": "from .training_args import TrainingArguments as TrainingArguments",
    "transformers/utils/__init__.py": "",
    "transformers/trainer_utils.py": """
        from .utils.generic import ExplicitEnum

        class IntervalStrategy(ExplicitEnum):
            NO = "no"
            STEPS = "steps"
        """,
    "transformers/training_args.py": """
        from dataclasses import dataclass, field
        from .trainer_utils import IntervalStrategy

        @dataclass
        class TrainingArguments:
            default_optim = "adamw_torch"
            output_dir: str | None = field(default=None)
            eval_strategy: IntervalStrategy | str = field(default="no")
            optim: str = field(default=default_optim)
            logging_steps: float = field(default=500)

            def __post_init__(self):
                self.eval_strategy = IntervalStrategy(self.eval_strategy)
                self.output_dir = str(self.output_dir)
        """,
    "transformers/utils/quantization_config.py": """
        class BitsAndBytesConfig(QuantizationConfigMixin):
            def __init__(self, load_in_4bit=False, threshold=6.0, bnb_4bit_quant_type="fp4", storage=None, **kwargs):
                if storage is None:
                    self.storage = torch.uint8
                elif isinstance(storage, str):
                    if storage not in ["uint8", "bfloat16"]:
                        raise ValueError("unknown storage")

            def quantization_method(self):
                if self.load_in_4bit and self.bnb_4bit_quant_type == "fp4":
                    return "fp4"
                elif self.load_in_4bit and self.bnb_4bit_quant_type == "nf4":
                    return "nf4"
                return None
        """,
}

PEFT = {
    "peft/__init__.py": "",
    "peft/tuners/__init__.py": "",
    "peft/tuners/lora/__init__.py": "",
    "peft/config.py": """
        from dataclasses import dataclass, field
        from typing import Optional

        @dataclass
        class PeftConfigMixin(PushToHubMixin):
            task_type: Optional[str] = field(default=None)

        @dataclass
        class PeftConfig(PeftConfigMixin):
            revision: Optional[str] = None
        """,
    "peft/tuners/lora/config.py": """
        from __future__ import annotations
        from dataclasses import dataclass, field
        from typing import Literal, Optional, Union
        from peft.config import PeftConfig

        @dataclass
        class LoraConfig(PeftConfig):
            r: int = field(default=8)
            task_type: Optional[str] = "CAUSAL_LM"
            bias: Literal["none", "all", "lora_only"] = field(default="none")
            init_lora_weights: bool | Literal["gaussian", "pissa_niter_[number of iters]"] = True
        """,
}


def write_package(folder: Path, files: dict[str, str]) -> Path:
    """Writes the files under `folder` and returns the package's own folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip())
    return folder / next(iter(files)).partition("/")[0]


def install(folder: Path, files: dict[str, str], version: str) -> None:
    """Writes a package with its metadata, as an installer does."""
    package = write_package(folder, files).name
    metadata = folder / f"{package}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir(exist_ok=True)
    metadata.write_text(f"Metadata-Version: 2.4\nName: {package}\nVersion: {version}\n")
