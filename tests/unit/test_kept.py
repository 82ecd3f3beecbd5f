"""What is kept of row blocks: found again while the block lives, gone with it, never more than there is room for."""

import gc
import threading

import numpy as np

from adaam.engines.kernels.kept import KEPT, Kept
from adaam.engines.kernels.panels import from_panels
from adaam.engines.kernels.strips import largest_entry, panels_of


def test_a_value_is_made_once_while_its_block_lives():
    kept, block, made = Kept(1000), np.zeros(3), []

    def make():
        made.append(1)
        return len(made)

    assert [kept.made(block, "a", make, 8) for _ in range(3)] == [1, 1, 1]
    assert kept.made(block, "b", make, 8) == 2
    assert kept.made(block.copy(), "a", make, 8) == 3
    assert len(kept) == 2, "that of the copy went with it"
    del block
    gc.collect()
    assert len(kept) == 0


def test_another_block_at_the_same_place_in_memory_gets_its_own():
    kept = Kept(1000)
    for i in range(50):
        block = np.full(3, float(i))
        assert kept.made(block, "sum", lambda block=block: block.sum(), 8) == 3.0 * i
        del block


def test_what_was_not_wanted_for_longest_goes_first():
    kept, blocks = Kept(24), [np.zeros(2) for _ in range(4)]
    for block in blocks[:3]:
        kept.made(block, "a", lambda: "first", 8)
    assert kept.made(blocks[0], "a", lambda: "again", 8) == "first"
    kept.made(blocks[3], "a", lambda: "first", 8)
    assert len(kept) == 3
    assert kept.made(blocks[0], "a", lambda: "again", 8) == "first"
    assert kept.made(blocks[1], "a", lambda: "again", 8) == "again"
    assert kept.made(blocks[2], "b", lambda: "large", 25) == "large"
    assert kept.made(blocks[2], "b", lambda: "larger", 25) == "larger", "no room for it at all"


def test_threads_share_what_is_kept():
    kept, blocks, wrong = Kept(400), [np.full(4, float(i)) for i in range(100)], []

    def work(seed):
        wanted = np.random.default_rng(seed).integers(0, 100, 500)
        wrong.extend(i for i in wanted if kept.made(blocks[i], "sum", lambda i=i: blocks[i].sum(), 8) != 4.0 * i)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(kept) <= 50


def test_rows_are_scaled_by_the_largest_of_their_block():
    X = np.array([[1.0, -4.0], [2.0, 0.5]])
    assert largest_entry(X) == 4.0
    assert largest_entry(np.zeros((2, 2))) == 1.0
    np.testing.assert_array_equal(
        from_panels(panels_of(X, np.float32)[0], X.shape[1])[: len(X)], (X / 4).astype(np.float32)
    )
    assert panels_of(X, np.float32) is panels_of(X, np.float32)
    assert panels_of(X, np.float64).dtype == np.float64
    n_kept = len(KEPT)
    del X
    gc.collect()
    assert len(KEPT) < n_kept
