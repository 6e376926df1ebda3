"""Everything that the libraries refuse or warn of is answered, and so is every reported mistake."""

import pytest
from coverage import PAGE, Answer, answer_faults, lead_answers, matched, page, site_answers, unanswered
from known_answers import fault
from library_sites import Site, newest_stack_is_installed, sites_in
from walked import RELEASES, WALKED

REASON = newest_stack_is_installed(RELEASES)
on_the_newest_stack = pytest.mark.skipif(bool(REASON), reason=REASON or "the newest stack is installed")


@pytest.mark.parametrize(
    ("answer", "why"),
    [("rule BAT001", ""), ("shim no_kbit_preparation, rule BAT001", ""), ("proof PRF005", ""), ("never", "no key")],
)
def test_an_answer_that_names_what_is_there_is_one(answer: str, why: str) -> None:
    assert fault(answer, why) == ""


@pytest.mark.parametrize(
    ("answer", "why", "said"),
    [
        ("", "", "no kind"),
        ("perhaps", "who knows", "no kind"),
        ("rule ZZZ999", "", "there is no rule 'ZZZ999'"),
        ("rule FCT005", "", "there is no rule 'FCT005'"),
        ("fact FCT999", "", "there is no fact 'FCT999'"),
        ("shim no_such_shim", "", "there is no shim"),
        ("proof GRD001", "", "there is no proof"),
        ("guard GRD999", "", "there is no guard"),
        ("rule BAT001, proof PRF999", "", "there is no proof 'PRF999'"),
        ("never", " ", "'never' needs a why"),
        ("later", "", "'later' needs a why"),
        ("wrong BAT001", "it is not so", "names nothing"),
    ],
)
def test_an_answer_that_names_nothing_real_is_a_fault(answer: str, why: str, said: str) -> None:
    assert said in fault(answer, why)


def test_no_answer_names_what_is_not_there() -> None:
    assert answer_faults() == []


def test_every_lead_has_an_answer() -> None:
    assert [lead.id for lead in lead_answers() if not lead.answer] == []


@on_the_newest_stack
@pytest.mark.parametrize("area", WALKED)
def test_every_statement_is_answered(area: str) -> None:
    found = matched(site_answers())
    assert [f"{site.place}: {site.text}" for site in unanswered(area, found.answers)] == []


@on_the_newest_stack
def test_every_answer_is_for_one_statement() -> None:
    assert matched(site_answers()).faults == ()


@on_the_newest_stack
def test_every_walked_function_is_there() -> None:
    """A name that is gone would take its statements out of the walk in silence."""
    empty = {"trl/trainer/base_config.py", "trl/trainer/base_trainer.py"}
    names = [(file, name) for files in WALKED.values() for file, names in files.items() for name in names]
    without = {f"{file}::{name}".removesuffix("::") for file, name in names if not sites_in(file, name)}
    assert without == empty


@on_the_newest_stack
def test_stale_ambiguous_and_second_answers_are_faults() -> None:
    place = "trl/trainer/grpo_config.py::GRPOConfig.__post_init__"
    stale = Answer("trl", "note", "why", place, "nothing says this")
    ambiguous = Answer("trl", "note", "why", place, "raise ValueError(")
    once = Answer("trl", "note", "why", place, "GRPO requires at least 2 generations")
    found = matched([stale, ambiguous, once, once])
    assert len(found.faults) == 3
    assert all(
        words in text for words, text in zip(("matches 0 ", "matches 10 ", "already"), found.faults, strict=True)
    )
    assert [site.function for site in found.answers] == ["GRPOConfig.__post_init__"]


@on_the_newest_stack
def test_statements_of_nested_functions_and_warnings_are_found() -> None:
    trainer = "trl/trainer/grpo_trainer.py"
    told = sites_in(trainer, "GRPOTrainer.__init__")
    assert any(site.text.startswith("warnings.warn(") for site in told)
    assert any(site.text.startswith("logger.warning(") for site in told)
    assert any(site.text.startswith("raise ") for site in told)
    assert Site(trainer, "GRPOTrainer._compute_loss", "raise ValueError(f'Unknown loss type: {self.loss_type}')") in (
        sites_in(trainer, "GRPOTrainer")
    )
    assert "GRPOTrainer.__init__._cast_lm_head_to_fp32" in {site.function for site in told}


@on_the_newest_stack
def test_the_page_is_the_one_that_is_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make coverage"
