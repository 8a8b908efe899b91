"""What takes a tenth of an epoch besides its steps is found, with what shortens it."""

from __future__ import annotations

from tfopt_core.diagnosis.training_findings import epoch_findings
from tfopt_core.records.diagnosis import EpochPart


def found(*parts, steps=100):
    # 1 s of steps
    return list(epoch_findings(parts, 0.01, steps))


def test_what_takes_less_than_a_tenth_is_no_finding():
    assert found(EpochPart(name="validation", seconds=0.1)) == []
    assert found(EpochPart(name="Plots", note="not timed")) == []


def test_without_a_number_of_steps_nothing_is_known():
    assert found(EpochPart(name="validation", seconds=9.0), steps=None) == []


def test_a_costly_validation_is_named_with_its_mends():
    (one,) = found(EpochPart(name="validation", seconds=1.0))
    assert (one.kind, one.split) == ("costly-validation", "validation")
    assert one.detail == "it takes 50% of an epoch"
    assert "validation_freq" in one.mend


def test_a_callback_is_found_by_name_with_the_mend_of_its_class():
    save, plots = found(
        EpochPart(name="ModelCheckpoint 2", seconds=0.5), EpochPart(name="Plots", seconds=0.5)
    )
    assert save.detail == "ModelCheckpoint 2 takes 25% of an epoch"
    assert "save_freq" in save.mend
    assert "no plugin shortens it" in plots.mend
