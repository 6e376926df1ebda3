"""The maintainer's command reads a page of the package index as it is."""

from grpo_recipes.facts.collect import versions_in


def test_every_version_is_listed_once_and_oldest_first() -> None:
    page = """<html><body><h1>Links for trl</h1>
    <a href="x">trl-0.10.1-py3-none-any.whl</a><br/>
    <a href="x">trl-0.10.1.tar.gz</a><br/>
    <a href="x" data-yanked="broken">trl-0.9.6-py3-none-any.whl</a><br/>
    <a href="x">trl-1.0.0rc1-py3-none-any.whl</a><br/>
    <a href="x">trl-notes.exe</a></body></html>"""
    assert versions_in(page) == ["0.9.6", "0.10.1", "1.0.0rc1"]
