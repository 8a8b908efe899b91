"""Which segments of a model are computed again, by what a step then holds."""

import pytest
from support.lazy_modules import keras
from tfopt_model.rematerialize import chosen_segments
from tfopt_model.segments import (
    Piece,
    cheapest,
    grouped,
    held,
    with_segments,
    without_segments,
)


def pieces(*inside: int, passed: int = 1, once: tuple[int, ...] = ()) -> list[Piece]:
    return [
        Piece(None, size, passed, "it draws" if place in once else "")
        for place, size in enumerate(inside)
    ]


def shape(segments: list) -> list[tuple[int, bool]]:
    return [(len(segment.pieces), segment.again) for segment in segments]


def test_equal_pieces_are_each_computed_again_but_the_last() -> None:
    segments = cheapest(pieces(10, 10, 10, 10), None)
    assert shape(segments) == [(1, True), (1, True), (1, True), (1, False)]
    assert held(segments) == 3 + 10


def test_pieces_that_hold_little_are_joined() -> None:
    # to pass on after each would hold as much as it saves
    segments = cheapest(pieces(*[2] * 9, passed=2), None)
    assert [again for _, again in shape(segments)][-1] is False
    assert held(segments) < 18
    assert len(segments) == 3


def test_what_cannot_be_computed_twice_is_kept() -> None:
    segments = cheapest(pieces(10, 10, 10, 10, once=(1,)), None)
    assert shape(segments)[1] == (1, False)
    assert held(segments) == 2 + 10 + 10


def test_so_many_segments_at_most_are_computed_again() -> None:
    segments = cheapest(pieces(*[10] * 6), 2)
    assert sum(segment.again for segment in segments) <= 2
    assert held(segments) < 60


def test_a_size_puts_pieces_together_up_to_it() -> None:
    assert [count for count, _ in shape(grouped(pieces(1, 1, 1, 5), 3, 9))] == [3, 1]


def test_a_model_of_one_piece_or_that_draws_everywhere_is_left_with_the_reason() -> None:
    for given in (pieces(10), pieces(10, 10, once=(0, 1))):
        assert "cannot be cut" in str(chosen_segments(given, None))
    assert "(it draws)" in str(chosen_segments(pieces(10, 10, once=(0, 1)), None))
    assert chosen_segments("no graph", None) == "no graph"


@pytest.mark.tensorflow
def test_a_clone_trains_its_own_layers_and_not_the_segments_of_the_original() -> None:
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    own = type(model)
    with_segments(model, [])
    clone = keras.models.clone_model(model)
    without_segments(model)
    assert type(clone) is own
    assert type(model) is own
