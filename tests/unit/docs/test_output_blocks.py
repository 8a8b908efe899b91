"""The outputs in a page are those of its commands, which tools/render_output.py runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tools import load_tool

tool = load_tool("render_output")
PAGE = """\
<!-- file: numbers.txt -->
```python
1
```

```bash
cat nothing.txt   # status 1
cat numbers.txt
```

```text
stale
```
"""


def test_files_are_written_commands_run_and_outputs_replaced(tmp_path: Path) -> None:
    page = tool.rendered(PAGE, tmp_path)
    assert page == PAGE.replace("stale", "1")
    assert (tmp_path / "numbers.txt").read_text() == "1\n"


def test_another_status_than_the_page_says_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(tool.PageError, match="status 1"):
        tool.rendered(PAGE.replace("# status 1", ""), tmp_path)


def test_a_block_may_stay_as_it_is(tmp_path: Path) -> None:
    page = PAGE.replace("```text", "<!-- as it is -->\n```text")
    assert tool.rendered(page, tmp_path) == page


def test_parts_are_shown_and_what_is_left_out_is_marked() -> None:
    printed = tool.Printed(0, "first\n  a\n\nsecond\n  b\n\nthird\n  c\n\nfourth\n", "")
    assert tool.shown(printed, ["second"]) == "[...]\nsecond\n  b\n[...]"
    assert tool.shown(printed, ["first", "fourth"]) == "first\n  a\n[...]\nfourth"
    with pytest.raises(tool.PageError, match='begins with "fifth"'):
        tool.shown(printed, ["fifth"])


def test_a_command_that_fails_as_the_page_says_is_shown_by_its_errors() -> None:
    assert tool.shown(tool.Printed(2, "", "error: no\n")) == "error: no"


def test_commands_go_on_behind_a_backslash_and_comments_are_none() -> None:
    assert list(tool.commands_of("# first\na \\\n  b\n\nc  # d\n")) == ["a    b", "c  # d"]
