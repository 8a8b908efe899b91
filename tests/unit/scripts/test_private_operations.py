"""Whatever a script does with files, a private folder acts as the folder itself would."""

from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from support import folder_operations
from support.cases import THOROUGH_EXAMPLES, few_examples
from support.folder_operations import PATHS, begin, carry_out, tree
from support.private_run import WAYS, run_privately

paths, texts = st.sampled_from(PATHS), st.text("ab\n", max_size=4)
operations = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["read", "remove", "mkdir", "makedirs", "rmdir", "rmtree",
                                   "list", "size"]), paths),
        st.tuples(st.sampled_from(["write", "append", "new", "truncate"]), paths, texts),
        st.tuples(st.sampled_from(["replace", "move", "copy"]), paths, paths),
        st.tuples(st.just("link"), paths, st.sampled_from(["./log", "./data/rows", "nowhere"])),
    ),
    min_size=20, max_size=40,  # each example starts a process
)  # fmt: skip
CODE = (
    inspect.getsource(folder_operations)
    + """
import json
print(json.dumps([carry_out(".", json.loads({operations!r})), tree(".")]))
"""
)


@pytest.mark.promise(50, injected="operations on files and folders, drawn by hypothesis")
@pytest.mark.parametrize("way", WAYS)
@few_examples(
    10,
    # shrinking takes minutes, since each example starts a process
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    # the same examples each time, but by tools/fuzz.py, which draws anew
    derandomize=settings().max_examples <= THOROUGH_EXAMPLES,
    suppress_health_check=list(HealthCheck),
)
@example(operations=[("rmtree", "data"), ("link", "data", "./log")])
@example(operations=[("remove", "log"), ("mkdir", "log"), ("mkdir", "new"), ("write", "log", "a")])
# a folder below one that was moved away and made again has no mark of its own
@example(operations=[("move", "data", "new"), ("mkdir", "data"), ("mkdir", "data/below")])
@given(operations=operations)
def test_a_private_folder_acts_as_the_folder_and_leaves_it_as_it_was(
    tmp_path_factory, way, operations
):
    original, plain = (tmp_path_factory.mktemp(name) / "project" for name in ("ours", "plain"))
    for folder in (original, plain):
        folder.mkdir()
        begin(folder)
    before = tree(original)
    run = run_privately(way, original, CODE.replace("{operations!r}", repr(json.dumps(operations))))
    assert run.error is None
    assert tree(original) == before
    found, after = json.loads(run.printed)
    assert found == json.loads(json.dumps(carry_out(plain, operations)))
    expected = tree(plain)
    assert after == expected
    check_told(run.written, before, expected)


def check_told(written, before, after):
    """Every file that differs is told, as new, changed or removed."""
    for path in {*before, *after}:
        was, is_ = before.get(path), after.get(path)
        if was == is_:
            continue
        parts = path.split("/")
        folders = ["/".join(parts[:n]) + "/" for n in range(1, len(parts) + 1)]
        said = next((written[one] for one in (path, *folders) if one in written), None)
        if is_ is None:
            assert said == "removed", path
        else:
            assert said == ("new" if was is None else "changed"), path
