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
