"""Links lead somewhere: to a file of the project, and to a heading that is there."""

from pathlib import Path

import pytest

from tests.docs.markdown import anchors, links

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_of_a_page_resolve(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{page.name}: {link} leads out of the project"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link} names no heading"


def test_every_page_is_reached_from_the_start_page() -> None:
    start = ROOT / "docs" / "index.md"
    reached = {(start.parent / link.partition("#")[0]).resolve() for link in links(start)}
    assert {page for page in PAGES if page.parent == start.parent and page != start} <= reached
