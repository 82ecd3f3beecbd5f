"""Maps over row blocks: in order, on all threads, with BLAS on one thread meanwhile."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from adaam import AdaAM, CPUEngine
from adaam.engines.blocks import blas_threads, held_threads, on_one_thread, ordered_map
from adaam.linalg import eigh


def blas_now():
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_results_come_in_order_whatever_the_threads():
    for n_threads in (1, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            assert list(ordered_map(lambda item: item**2, range(50))) == [item**2 for item in range(50)]


def test_held_threads_are_still_those_of_maps():
    with threadpool_limits(3, user_api="blas"):
        with held_threads():
            assert blas_now() == 1
            assert blas_threads() == 3
            met = threading.Barrier(3, timeout=30)
            assert len(list(ordered_map(lambda _: met.wait(), range(3)))) == 3  # times out on fewer threads
            with held_threads():
                assert blas_threads() == 3
        assert blas_now() == 3


def test_a_map_within_a_map_runs_on_its_own_thread():
    def inner(item):
        return set(ordered_map(lambda _: threading.get_ident(), range(5))) == {threading.get_ident()}

    with threadpool_limits(2, user_api="blas"), held_threads():
        assert all(ordered_map(inner, range(4)))


def test_threads_are_given_back_when_a_fit_fails_or_ends(rng, monkeypatch):
    X = rng.standard_normal((60, 5))
    with threadpool_limits(2, user_api="blas"):
        AdaAM(2).fit(X)
        assert blas_now() == 2
        monkeypatch.setattr("adaam.affinity.adaptive.degree_projection", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            AdaAM(2).fit(X)
        assert blas_now() == 2
        assert blas_threads() == 2


def test_the_bits_of_a_fit_do_not_depend_on_the_number_of_threads(rng):
    X = rng.standard_normal((5000, 30))
    maps = []
    for n_threads in (1, 3):
        with threadpool_limits(n_threads, user_api="blas"):
            maps.append(AdaAM(3).fit(X).components_)
    np.testing.assert_array_equal(*maps)


def held():
    with held_threads():
        yield None


def mapped():
    yield from ordered_map(lambda item: item, range(9))


@pytest.mark.parametrize("work", [held, mapped])
def test_a_task_that_outlasts_work_beside_it_leaves_blas_its_threads(work):
    """Regression: two threads each restored what they had found, and a fit on Dask's threads left BLAS one thread."""
    begun, end = threading.Event(), threading.Event()
    task = threading.Thread(target=on_one_thread, args=(lambda: begun.set() or end.wait(30),))
    with threadpool_limits(2, user_api="blas"):
        running = work()
        next(running)
        task.start()
        assert begun.wait(30)
        assert eigh(np.eye(3))[0].sum() == 3.0
        list(running)
        assert blas_now() == 1, "the task goes on"
        end.set()
        task.join()
        assert blas_now() == 2


@pytest.mark.parametrize("n_items", range(7))
def test_items_come_in_order_and_one_left_over_has_all_threads(n_items):
    with threadpool_limits(2, user_api="blas"), held_threads():
        found = list(CPUEngine().each(lambda item: (item, blas_threads()), range(n_items)))
    assert [item for item, _ in found] == list(range(n_items))
    assert [threads for _, threads in found] == [1] * (n_items - n_items % 2) + [2] * (n_items % 2)
