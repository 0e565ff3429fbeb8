"""However a text is cut for the demo, no line is lost and none is in two sections."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from testproject.demo.texts import FEWEST, MOST, find_sections, find_text, look_into, words_of

LINES = st.lists(
    st.sampled_from(["", "  ", "words and more words", "TITLE", "=====", "-----", "# heading", "def function():", "\r"])
    | st.text(max_size=20),
    min_size=1,
    max_size=120,
)


@given(LINES)
def test_every_line_is_in_exactly_one_section(lines: list[str]) -> None:
    sections = find_sections(lines)
    assert [line for section in sections for line in range(section.start, section.stop)] == list(range(len(lines)))
    assert min(FEWEST, len(lines)) <= len(sections) <= MOST
    assert all(section.length and section.title for section in sections)


@given(LINES)
def test_every_word_is_counted_once(lines: list[str]) -> None:
    findings = [
        look_into(section, number, lines[section.start : section.stop])
        for number, section in enumerate(find_sections(lines), 1)
    ]
    assert sum(finding.words for finding in findings) == len(words_of(lines))


def test_headings_of_several_kinds_begin_sections() -> None:
    text = (
        "preface\n\nFIRST\n=====\n\n## Second ##\n\nclass Third:\n    x\n\n4. Fourth\n---------\n\ndef fifth():\n    x"
    )
    titles = [section.title for section in find_sections(text.split("\n"))]
    assert titles == ["preface", "FIRST", "Second", "class Third", "4. Fourth", "def fifth()"]


def test_a_title_does_nothing_to_a_terminal() -> None:
    assert find_sections(["\x1b[2J\x07title"])[0].title == "[2J title"


def test_there_is_a_text_on_every_machine() -> None:
    path = find_text()
    assert path.is_file()
    assert len(find_sections(Path(path).read_text().split("\n"))) >= FEWEST
