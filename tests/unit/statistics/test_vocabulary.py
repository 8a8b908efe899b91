"""Each verdict has a label and a row in the guide."""

import pytest
from support.pages import first_cells, guide

from tfopt_core.statistics.results import (
    SCHEMA_VERSION,
    ComparisonKind,
    MemoryVerdict,
    QualityVerdict,
    Verdict,
)

# The words that a result of this schema version may hold. With a new word SCHEMA_VERSION is raised,
# and stands here with the words of that version: an older tfopt then refuses the result.
WORDS = {
    4: {
        Verdict: {
            "faster", "slower", "steps faster", "steps slower", "unlike", "no difference",
            "worse", "quality open", "inconclusive", "not applied", "void",
            "suspicious", "fits", "does not fit", "none",
        },
        MemoryVerdict: {
            "lighter", "heavier", "no difference", "worse", "quality open", "inconclusive", "none",
        },
        QualityVerdict: {"certified", "not worse", "worse", "not established"},
        ComparisonKind: {"end-to-end", "steady", "steps", "time-to-target"},
    }
}  # fmt: skip


def test_stored_results_hold_the_words_of_their_schema_version():
    assert max(WORDS) == SCHEMA_VERSION
    for words, expected in WORDS[SCHEMA_VERSION].items():
        assert {member.value for member in words} == expected, words.__name__


def test_every_verdict_has_a_label_of_its_own():
    labels = [verdict.label for verdict in Verdict]
    assert all(labels)
    assert len(set(labels)) == len(labels)


def test_every_verdict_has_a_row_in_the_guide_and_every_row_is_of_one():
    section = guide("measuring.md").partition("\n## Verdicts\n")[2].partition("\n## ")[0]
    assert first_cells(section, word="[a-z ]+") == {verdict.value for verdict in Verdict}


@pytest.mark.parametrize(
    ("words", "heading"),
    [
        (ComparisonKind, "### `comparison`"),
        (MemoryVerdict, "### `comparison.memory[]`"),
        (QualityVerdict, "### `comparison.quality`"),
    ],
)
def test_every_word_is_in_its_section_of_the_guide(words, heading):
    section = guide("programs.md").partition(f"\n{heading}\n")[2].partition("\n### ")[0]
    assert [word for word in words if f'"{word}"' not in section] == []
