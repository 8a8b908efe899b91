"""Memory runs out: in a control group, on a device, and where nobody says that it did."""

import json

import pytest
from support.memory_group import GREEDY, memory_group
from support.real_process import (
    environment,
    make_distribution,
    started,
    tfopt,
    tiny_project,
)

pytestmark = pytest.mark.slow

# TensorFlow and three processes of tfopt fit, what the run takes beside them does not.
LIMIT_BYTES = 3 * 2**30
TAKES = """
        import pathlib
        with open("calls", "a") as calls:
            calls.write("x")
        if len(pathlib.Path("calls").read_text()) == 2:  # the dry build was the first
            blocks = []
            for _ in range(200):
                blocks.append(np.ones(2**24))
"""


@pytest.mark.thorough
@pytest.mark.promise(3, injected="a control group whose memory a run exceeds")
def test_a_run_that_the_kernel_ends_for_want_of_memory_is_said_to_be_out_of_memory(tmp_path):
    project = tiny_project(tmp_path, says=TAKES.strip())
    with (
        memory_group(LIMIT_BYTES) as join,
        started(
            "train", "recipe.toml", cwd=project, env=environment(TF_NUM_INTRAOP_THREADS="1"),
            anew=True, preexec_fn=join,
        ) as process,
    ):  # fmt: skip
        assert process.wait(200) == 3, (project / "stderr.txt").read_text()
    printed = " ".join((project / "stdout.txt").read_text().split())
    assert "the training failed: out of memory: killed by SIGKILL" in printed


@pytest.mark.promise(3, injected="SIGKILL that no counter explains")
def test_a_run_that_somebody_killed_is_possibly_out_of_memory_with_its_peak(tmp_path):
    kills = 'import pathlib, os\n        if pathlib.Path("c").exists(): os.kill(os.getpid(), 9)'
    project = tiny_project(tmp_path, says=f'{kills}\n        pathlib.Path("c").touch()')
    done = tfopt("train", "recipe.toml", cwd=project)
    assert done.code == 3, done.err
    printed = " ".join(done.out.split())
    said, _, peak = printed.partition("killed by SIGKILL (possibly out of memory, peak memory ")
    assert "the training failed" in said
    size, unit = peak.partition(")")[0].split()
    assert float(size.replace(",", "")) > 0
    assert unit in ("MiB", "GiB")


@pytest.mark.thorough
@pytest.mark.promise(
    4, injected="a tensor that TensorFlow's allocator has no room for, in a plugin"
)
def test_a_variant_that_runs_out_of_a_devices_memory_fails_and_the_others_go_on(tmp_path):
    site = make_distribution(
        tmp_path / "site", "greedy", {"greedy": "greedy_module:Greedy"}, greedy_module=GREEDY
    )
    project = tiny_project(tmp_path / "project", plugin="greedy")
    done = tfopt("apply", "recipe.toml", "--json", "out.json", cwd=project, site=site)
    data = json.loads((project / "out.json").read_text())
    found = [(run["variant"], run["status"], run["out_of_memory"]) for run in data["runs"]]
    assert set(found) == {("baseline", "ok", False), ("full", "failed", True)}
    assert found.count(("baseline", "ok", False)) > 1
    assert "ran out of memory" in done.out
    assert "x faster" not in done.out
    assert "Traceback" not in done.out + done.err
