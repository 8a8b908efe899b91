"""The least time of a step: work over peaks, and nothing where a peak is not the machine's."""

from __future__ import annotations

import pytest

from tfopt_core.diagnosis.machine_peaks import MachinePeaks
from tfopt_core.diagnosis.roofline import last_cache_bytes, roofline, why_no_peak
from tfopt_core.testing import make_machine

PEAKS = MachinePeaks(operations={"float32": 1e11, "bfloat16": 4e11}, bytes=1e10)


def test_who_may_round_is_bounded_by_the_fastest_type():
    bounding = roofline(1e9, 0, "float32", PEAKS, 0)
    assert bounding.floor.of("exact") == bounding.floor.of("order") == pytest.approx(1e-2)
    assert bounding.floor.of("rounding") == pytest.approx(2.5e-3)
    assert bounding.fastest == "bfloat16"


def test_who_may_leave_work_out_has_no_floor():
    floor = roofline(1e9, 0, "float32", PEAKS, 0).floor
    assert floor.of("exact", "in-place") == floor.of("changes") == floor.of("unknown") == 0.0


def test_under_a_16_bit_policy_a_layer_may_be_in_the_faster_of_both_types():
    assert roofline(1e9, 0, "mixed_bfloat16", PEAKS, 0).floor.same_precision == (
        pytest.approx(2.5e-3)
    )


def test_weights_are_read_and_written_as_far_as_the_cache_does_not_hold_them():
    bounding = roofline(0, 3e8, "float32", PEAKS, cache_bytes=100_000_000)
    assert bounding.bytes == 4e8
    assert bounding.floor.same_precision == pytest.approx(4e-2)
    # they may be kept in fewer bits
    assert bounding.floor.any_precision == 0.0
    assert roofline(0, 3e8, "float32", PEAKS, cache_bytes=10**9).floor.same_precision == 0.0


@pytest.mark.parametrize(
    ("threads", "environment", "why"),
    [
        (0, {}, ""),
        (4, {}, ""),
        (1, {}, "TensorFlow is limited to 1 of 4 threads"),
        (0, {"TF_ENABLE_ONEDNN_OPTS": "0"}, "oneDNN is turned off"),
    ],
)
def test_a_process_with_fewer_means_does_not_see_the_peak(threads, environment, why):
    assert why_no_peak(make_machine(cpu_count=4), threads, environment) == why


def test_all_last_level_caches_count_and_an_unknown_one_is_taken_as_huge(tmp_path):
    for cpu, shared in enumerate(["0-1", "0-1", "2-3", "2-3"]):
        for index, (level, size) in enumerate([(1, 32), (2, 512), (3, 1024)]):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "size").write_text(f"{size}K\n")
            (folder / "shared_cpu_list").write_text(f"{shared if level == 3 else cpu}\n")
    # 4 of the second level, 2 of the third
    assert last_cache_bytes(make_machine(), tmp_path) == (4 * 512 + 2 * 1024) * 1024
    assert last_cache_bytes(make_machine(), tmp_path / "none") > 2**30
