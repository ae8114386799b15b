"""Layouts against a plain packer of numpy: order of the data, bounds, canonical forms, and refusals."""

from __future__ import annotations

import pickle
import random
from itertools import pairwise

import layout_reference as reference
import numpy as np
import pytest

import onstream as ons
from onstream import Layout

SEEDS = range(8)
CASES = 400  # of each seed


def cases(seed: int) -> list[reference.Case]:
    draw = random.Random(seed)
    return [reference.inside(reference.nest(draw, draw.randint(1, 4))) for _ in range(CASES)]


@pytest.mark.parametrize("seed", SEEDS)
def test_data_is_packed_and_unpacked_in_the_order_of_the_reference(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    for case in cases(seed):
        room = int(case.offsets.max(initial=-1)) + 1
        memory = numbers.integers(0, 256, room, dtype=np.uint8)
        data = case.layout.pack(memory)
        assert np.array_equal(data, memory[case.offsets]), case.text
        assert case.layout.overlaps_itself == reference.overlaps(case), case.text
        if reference.overlaps(case):
            with pytest.raises(ons.InvalidArgumentError, match="overlap"):
                case.layout.unpack(data, memory)
            continue
        filled = numbers.integers(0, 256, room, dtype=np.uint8)
        expected = filled.copy()
        expected[case.offsets] = data
        case.layout.unpack(data, filled)
        assert np.array_equal(filled, expected), case.text


@pytest.mark.parametrize("seed", SEEDS)
def test_sizes_and_bounds_are_those_of_the_reference(seed: int) -> None:
    for case in cases(seed):
        layout = case.layout
        assert layout.nbytes == case.offsets.size, case.text
        assert (layout.lower_bound, layout.extent) == (case.lower, case.extent), case.text
        if case.offsets.size:
            assert layout.true_lower_bound == case.offsets.min(), case.text
            assert layout.true_extent == case.offsets.max() + 1 - case.offsets.min(), case.text


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_bytes_in_the_same_order_are_equal_however_they_were_made(seed: int) -> None:
    made = cases(seed)
    for case in made:
        bytewise = Layout.indexed_block(1, case.offsets, 1)
        assert case.layout == bytewise, case.text
        assert hash(case.layout) == hash(bytewise), case.text
        assert case.layout.canonical().to_json() == bytewise.canonical().to_json(), case.text
        if case.offsets.size > 1 and case.offsets[0] != case.offsets[-1]:
            assert case.layout != Layout.indexed_block(1, case.offsets[::-1], 1), case.text
    for one, other in pairwise(made):
        assert (one.layout == other.layout) == np.array_equal(one.offsets, other.offsets), (one.text, other.text)


@pytest.mark.parametrize("seed", SEEDS)
def test_json_and_pickle_bring_the_same_layout_back(seed: int) -> None:
    for case in cases(seed):
        for back in (Layout.from_json(case.layout.to_json()), pickle.loads(pickle.dumps(case.layout))):
            assert back == case.layout, case.text
            assert (back.lower_bound, back.extent) == (case.layout.lower_bound, case.layout.extent), case.text


def test_a_slice_is_its_elements() -> None:
    draw = random.Random(5)
    for _ in range(500):
        dims = draw.randint(1, 7)
        whole = np.arange(int(np.prod(shape := [draw.randint(1, 4) for _ in range(dims)])), dtype=np.int32).reshape(
            shape
        )
        steps = [slice(draw.randint(0, n - 1), None, draw.randint(1, 2)) for n in shape]
        view = whole[tuple(steps)].transpose(draw.sample(range(dims), dims))[:: draw.choice([1, -1])]
        packed = Layout.of(view, within=whole).pack(whole).view(np.int32)
        assert np.array_equal(packed, view.ravel()), (shape, steps, view.strides)


def test_common_layouts_have_short_canonical_forms() -> None:
    assert Layout.vector(4, 2, 2, "f8") == Layout.contiguous(64, 1)
    assert Layout.vector(4, 2, 2, "f8").is_contiguous
    assert repr(Layout.vector(64, 1, 64, "f8")) == (
        "Layout(64 x 8 B, stride 512 B: 512 bytes from 0 to 32264, extent 32264)"
    )
    column = Layout.of(np.zeros((64, 64))[:, 0])
    assert column == Layout.vector(64, 1, 64, "f8") == Layout.subarray((64, 64), (64, 1), (0, 0), "f8")
    assert Layout.indexed_block(1, range(0, 640, 64), "f8") == Layout.vector(10, 1, 64, "f8")


def test_records_are_their_fields() -> None:
    record = np.dtype([("a", "i1"), ("b", "f8", (3,)), ("c", "i4")], align=True)
    memory = np.frombuffer(np.random.default_rng(0).bytes(record.itemsize * 5), record)
    packed = Layout.contiguous(5, record).pack(memory)
    expected = b"".join(one.tobytes() for element in memory for one in (element["a"], element["b"], element["c"]))
    assert packed.tobytes() == expected
    assert Layout.contiguous(1, record).extent == record.itemsize


def test_counts_and_extents_may_pass_2_to_the_32() -> None:
    large = Layout.vector(2**33, 1, 3, "f8")
    assert large.nbytes == 2**36
    assert large.extent == (2**33 - 1) * 24 + 8
    assert not large.overlaps_itself
    assert large == Layout.hvector(2**33, 1, 24, 8)
    twice = Layout.struct([(0, large), (8, large)])
    assert twice.nbytes == 2**37
    records = Layout.contiguous(2**32, Layout.struct([(0, "i4"), (8, "f8")]).resized(0, 16))
    assert records.nbytes == 12 * 2**32
    assert not records.overlaps_itself
    with pytest.raises(ons.InvalidArgumentError, match="larger than memory"):
        Layout.vector(2**40, 2**40, 2**40, 8)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Layout.contiguous(-1, 8), "contiguous: the count is -1"),
        (lambda: Layout.contiguous(1, -8), "elements of -8 bytes"),
        (lambda: Layout.vector(1, -2, 3, 8), "vector: the block length is -2"),
        (lambda: Layout.indexed([1, 2], [0], 8), "2 block lengths and 1 offsets"),
        (lambda: Layout.indexed([-1], [0], 8), "a block length is -1"),
        (lambda: Layout.subarray((4, 4), (2, 2), (3, 0), 8), "dimension 0 has 4 elements, and 2 from 3 on"),
        (lambda: Layout.subarray((4, 4), (2,), (0, 0), 8), "of 2 dimensions got 1 extents and 2 starts"),
        (lambda: Layout.subarray((4,), (2,), (0,), 8, order="X"), "order is 'X'"),
        (lambda: Layout.from_json("{}"), "the text is no layout: .*run_bytes"),
        (lambda: Layout.from_json("[1"), "the text is no layout"),
        (lambda: Layout.from_json('{"run_bytes": "a"}'), "the text is no layout"),
        (lambda: Layout.contiguous(9, 1).pack(bytes(8)), "takes the bytes 0 to 9, but the array has 8"),
        (lambda: Layout.contiguous(4, 1).moved(-1).pack(bytes(8)), "takes the bytes -1 to 3"),
        (lambda: Layout.contiguous(8, 1).unpack(bytes(7), bytearray(8)), "the data has 7 bytes, and the layout 8"),
        (lambda: Layout.contiguous(8, 1).unpack(bytes(8), bytes(8)), "unpack.*: the array is read-only"),
        (lambda: Layout.contiguous(8, 1).pack(np.zeros((4, 4))[:, 0]), "pack.*: the array is not contiguous"),
        (
            lambda: Layout.indexed([2, 2, 2], [0, 4, 1], "f8").unpack(bytes(48), bytearray(48)),
            "Layout.unpack.*: blocks 0 and 2 .* overlap: bytes 0 to 16 and 8 to 24",
        ),
    ],
)
def test_bad_layouts_are_refused_with_their_values(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(ons.InvalidArgumentError, match=words):
        make()


def test_offsets_that_are_no_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="offsets must be a sequence of integers"):
        Layout.indexed([1], [0.5], 8)


def test_reaches_that_do_not_fit_into_an_address_are_refused() -> None:
    """Each dimension alone may; their sum, and offsets, are held too."""
    far, layout = 2**62 // 5, ons.Layout.contiguous(1, 32)
    with pytest.raises(ons.InvalidArgumentError, match="larger than memory"):
        ons.Layout.hvector(5, 1, far, layout)
    small = ons.Layout.contiguous(1, 8)
    for offset in (2**63 - 1, -(2**63), 2**57):
        with pytest.raises(ons.InvalidArgumentError, match="beyond all memory"):
            ons.Layout.struct([(offset, small)])
    with pytest.raises(ons.InvalidArgumentError, match="beyond all memory"):
        small.moved(2**56).moved(2**56)


def test_whether_blocks_overlap_does_not_depend_on_earlier_questions() -> None:
    inner = ons.Layout.indexed([1, 2, 1], [0, 3, 11], 1)
    assert not inner.overlaps_itself
    assert ons.Layout.hvector(2, 1, 11, inner).overlaps_itself
    assert not ons.Layout.hvector(2, 1, 16, inner).overlaps_itself
