"""When the proof of an export holds, and what it says where it does not."""

import math

import pytest

pytestmark = pytest.mark.stack

# difference, rounding, change of the adapter -> whether it holds, whether it would not see a missing adapter
CASES = {
    "rounding": ((0.015, 0.02, 1.3), (True, False)),
    "all of it": ((0.0, 0.02, None), (True, False)),
    "four times rounding": ((0.08, 0.02, 1.3), (True, False)),
    "more than that": ((0.081, 0.02, 1.3), (False, False)),
    "no adapter": ((1.3, 0.02, 1.3), (False, False)),
    "no number": ((math.nan, 0.02, 1.3), (False, False)),
    "a training smaller than rounding": ((0.015, 0.02, 0.05), (True, True)),
}


@pytest.mark.parametrize("case", CASES)
def test_an_export_is_held_against_what_rounding_makes(case: str) -> None:
    from grpo_recipes.worker.export.proof import ExportProof

    measured, expected = CASES[case]
    proof = ExportProof("12 completions", 40, "bfloat16", *measured)
    assert (proof.holds, proof.is_blind) == expected


def test_what_cannot_be_told_and_what_is_no_number_name_the_way_out() -> None:
    from grpo_recipes.worker.export.proof import ExportProof, blindness, largest, refusal

    blind = blindness(ExportProof("12 completions", 40, "bfloat16", 0.01, 0.02, 0.05))
    assert blind.severity == "warning"
    assert "the proof would not notice a missing adapter" in blind.because[0]
    assert "--dtype float32" in str(blind.fix)
    overflow = refusal(ExportProof("12 completions", 40, "float16", largest([math.nan, 1.0], [0.0, 1.0]), 0.02, None))
    assert "exceed the range of float16" in overflow.because[0]
    assert largest([1.0, 2.0], [1.5, 2.1]) == 0.5
