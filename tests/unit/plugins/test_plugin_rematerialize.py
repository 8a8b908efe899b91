"""Which segments of a model are computed again, by what a step then holds."""

import pytest
from support.lazy_modules import keras
from tfopt_model.rematerialize import chosen_segments
from tfopt_model.segments import Piece, cheapest, grouped, held, with_segments, without_segments


def pieces(*inside, passed=1, once=()):
    return [
        Piece(None, size, passed, "it draws" if place in once else "")
        for place, size in enumerate(inside)
    ]


@pytest.mark.parametrize(
    ("given", "at_most", "again", "kept"),
    [
        # each but the last, which the gradient needs first
        (pieces(10, 10, 10, 10), None, [True, True, True, False], 3 + 10),
        # what cannot be computed twice is kept
        (pieces(10, 10, 10, 10, once=(1,)), None, [True, False, True, False], 2 + 10 + 10),
        # to pass on after each would hold as much as it saves
        (pieces(*[2] * 9, passed=2), None, [True, True, False], 10),
        (pieces(*[10] * 6), 2, [True, True, False], 22),
    ],
)
def test_what_holds_least_is_computed_again(given, at_most, again, kept):
    segments = cheapest(given, at_most)
    assert [segment.again for segment in segments] == again
    assert held(segments) == kept


def test_a_size_puts_pieces_together_up_to_it():
    assert [len(one.pieces) for one in grouped(pieces(1, 1, 1, 5), 3, 9)] == [3, 1]


def test_a_model_of_one_piece_or_that_draws_everywhere_is_left_with_the_reason():
    for given in (pieces(10), pieces(10, 10, once=(0, 1))):
        assert "cannot be cut" in str(chosen_segments(given, None))
    assert "(it draws)" in str(chosen_segments(pieces(10, 10, once=(0, 1)), None))
    assert chosen_segments("no graph", None) == "no graph"


def test_a_clone_trains_its_own_layers_and_not_the_segments_of_the_original():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    own = type(model)
    with_segments(model, [])
    clone = keras.models.clone_model(model)
    without_segments(model)
    assert type(clone) is own
    assert type(model) is own
