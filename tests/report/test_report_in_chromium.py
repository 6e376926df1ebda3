"""The page in a real browser: nothing on its console, nothing asked for, at each width, light and dark, by keyboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from report_runs import completions, made, row, step
from support import chromium

from grpo_recipes.report.html.page import write_page
from grpo_recipes.report.html.run_data import ReportedRun

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(chromium.executable() is None, reason="there is no chromium here: apt-get install chromium"),
]
HOSTILE = "</script><script>document.title = 'broken'</script><img src=http://127.0.0.1:9/x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    with chromium.browser() as one:
        yield one


def paged(place: Path, *folders: Path) -> Path:
    write_page([ReportedRun(str(folder)) for folder in folders], place / "page.html")
    return place / "page.html"


@pytest.mark.parametrize(
    ("dark", "width"),
    [
        pytest.param(False, 360, id="light-360"),
        pytest.param(True, 1440, id="dark-1440"),
        pytest.param(False, 1440, id="light-1440", marks=pytest.mark.long),
        pytest.param(True, 360, id="dark-360", marks=pytest.mark.long),
    ],
)
def test_it_is_shown_without_an_error_or_a_request(
    width: int, dark: bool, tmp_path: Path, browser: chromium.Browser
) -> None:
    page = paged(tmp_path, made(tmp_path / "a", kept=[completions(1, row(HOSTILE))]), made(tmp_path / "b"))
    browser.said.clear(), browser.asked.clear()
    browser.open(page, width, dark=dark)
    browser.value("document.querySelectorAll('details').forEach(one => one.open = true)")
    browser.value("scrollTo(0, document.body.scrollHeight); new Promise(done => setTimeout(done, 300))")
    assert browser.said == [] and browser.asked == [page.resolve().as_uri()]
    assert browser.value("document.documentElement.scrollWidth") == width
    assert browser.value("document.title") == "2 runs - grpo-run report"
    assert browser.value("document.querySelectorAll('.uplot canvas').length") > 5
    back = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, back.strip("rgb()").split(","))) < 128) is dark


def test_a_chart_can_be_read_by_keyboard(tmp_path: Path, browser: chromium.Browser) -> None:
    browser.open(paged(tmp_path, made(tmp_path / "run")), 1440)
    browser.value("document.querySelector('[data-chart=reward] .plot').focus()")
    browser.key("End")
    legend = "document.querySelector('[data-chart=reward] .u-legend').textContent"
    assert "step40mean0.4low" in browser.value(legend)
    browser.key("ArrowLeft")
    assert "step39mean0.39low" in browser.value(legend)


@pytest.mark.parametrize("width", [390, 1440])
def test_titles_take_one_line_and_legends_have_no_empty_boxes(
    width: int, tmp_path: Path, browser: chromium.Browser
) -> None:
    ways = {f"completions/ended_by_{way}": 0.25 for way in ("stop", "eos", "length")}
    page = paged(tmp_path, made(tmp_path / "run", steps=[step(number, **ways) for number in range(1, 41)]))
    browser.open(page, width, height=6000)
    browser.value("new Promise(done => setTimeout(done, 300))")
    heights = browser.value("[...document.querySelectorAll('.chart .title')].map(one => one.offsetHeight)")
    assert len(heights) > 5 and max(heights) < 30
    boxes = "[...document.querySelectorAll('.u-series:not(:first-child):not(.u-end) .u-marker')]"
    backs = set(browser.value(f"{boxes}.map(one => getComputedStyle(one).backgroundColor)"))
    assert len(backs) > 1 and "rgba(0, 0, 0, 0)" not in backs


def test_completions_are_filtered(tmp_path: Path, browser: chromium.Browser) -> None:
    kept = [completions(5, row("middling", 0.5), row("awful", -2.0, ended="length"), row("splendid", 3.0))]
    browser.open(paged(tmp_path, made(tmp_path / "run", kept=kept)), 1440)
    seen = "[...document.querySelectorAll('.sample:not([hidden]) .completion')].map(one => one.textContent).join()"
    choose = """(name, value) => {
        const one = document.querySelector('.filter').elements[name];
        one.value = value;
        one.dispatchEvent(new Event('input', {bubbles: true}));
    }"""
    for name, value, expected in (("kind", "worst", "awful"), ("kind", "", None), ("text", "SPLEN", "splendid")):
        browser.value(f"({choose})('{name}', '{value}')")
        assert browser.value(seen) == expected if expected else browser.value(seen).count(",") == 2


def test_a_page_of_a_run_that_still_trains_says_how_old_it_is(tmp_path: Path, browser: chromium.Browser) -> None:
    browser.open(paged(tmp_path, made(tmp_path / "run", status="running")), 1440)
    assert " s ago" in browser.value("document.getElementById('age').textContent")


def test_it_opens_in_two_seconds_after_ten_thousand_steps(tmp_path: Path, browser: chromium.Browser) -> None:
    steps = [step(number, **{f"figure/{place}": number * 0.1 for place in range(20)}) for number in range(1, 10_001)]
    page = paged(tmp_path, made(tmp_path / "run", steps=steps))
    browser.ask("Performance.enable")
    before = _busy(browser)
    browser.open(page, 1440)
    assert 0 < _busy(browser) - before < 2


def _busy(browser: chromium.Browser) -> float:
    """Seconds that the tab worked so far, whatever else the machine did."""
    return next(
        one["value"] for one in browser.ask("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration"
    )
