"""Whatever pipeline a data set is, taking it apart and building it anew changes nothing."""

import attrs
import pytest
from hypothesis import HealthCheck, Phase, assume, given
from hypothesis import strategies as st
from support.cases import few_examples
from support.compared import epochs
from support.pipelines import pipelines, write_files

from tfopt_core.data import DataPlan, Map, Skip
from tfopt_core.data.dissect.walk import has_stage, known_cardinality
from tfopt_core.data.lower import lower, lower_stages

pytestmark = pytest.mark.tensorflow
# shrinking a pipeline that fails takes minutes, since each attempt traces its functions anew
few = few_examples(
    25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files")
    write_files(made)
    return made


@few
@given(st.data())
def test_every_pipeline_yields_the_same_when_it_is_built_anew(folder, data):
    dataset, whole = data.draw(pipelines(folder))
    plan = DataPlan.from_dataset(dataset)
    assume(not _shares_orders(plan))
    assert not whole or plan.source.origin != "dataset"
    assert lower(plan) is dataset
    anew = lower_stages(plan.stages)
    assert anew.element_spec == dataset.element_spec
    assert int(anew.cardinality()) == int(dataset.cardinality())
    expected = epochs(dataset)
    assert epochs(anew) == expected
    if plan.cardinality is not None:
        assert plan.cardinality == len(expected[0])
    elif plan.source.count is not None:
        # whatever tf.data can say of whole stages can be said of the plan; only what its own
        # analysis knows better, from inside a function, may be missing
        assert known_cardinality(dataset) is None or _counts_inside(plan)


@few
@given(st.data())
def test_what_stands_behind_a_change_yields_the_same_too(folder, data):
    """As far as it is unchanged, the given data set is used; the rest is built behind it."""
    dataset, _ = data.draw(pipelines(folder))
    plan = DataPlan.from_dataset(dataset)
    assume(not _shares_orders(plan))
    maps = [i for i, stage in enumerate(plan.stages) if isinstance(stage, Map)]
    if maps:
        index = data.draw(st.sampled_from(maps))
        changed = plan.replace(index, attrs.evolve(plan.stages[index], parallel=2, ordered=True))
    else:
        index = data.draw(st.integers(1, len(plan.stages)))
        changed = plan.insert(index, Skip(count=0))
    assert lower(changed.upto(index)) is plan.given[index - 1][1]
    built = lower(changed)
    assert built is not dataset
    assert built.element_spec == dataset.element_spec
    assert epochs(built) == epochs(lower_stages(plan.stages))


def _shares_orders(plan):
    """Whether a part of a zip is shuffled. Parts that are unchanged stay the given objects, even
    where the zip is built anew: if both parts are made from one shuffled data set, they have to
    go on sharing it. So reading the one object would change what the other yields."""
    return any(has_stage(part.given[-1][1], "Shuffle") for part in plan.source.parts)


def _counts_inside(plan):
    return any(stage.kind in ("interleave", "map_batches", "unbatch") for stage in plan.stages)
