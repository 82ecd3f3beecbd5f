"""Dask arrays whose chunks differ from what they announce, empty chunks, and schedulers given by their address."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

from adaam import LPP, AdaAM, AdaAMClustering
from adaam.engines import ClusterError, DaskEngine

da = pytest.importorskip("dask.array", reason="Dask is not installed")
pytest.importorskip("distributed", reason="Dask's distributed is not installed")
dask = pytest.importorskip("dask")


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0][:600]


def announced_as(chunks, shapes, dtypes):
    """Return an array of chunks whose announced shapes and dtypes may be wrong."""
    parts = [
        da.from_delayed(dask.delayed(chunk), shape, dtype)
        for chunk, shape, dtype in zip(chunks, shapes, dtypes, strict=True)
    ]
    return da.concatenate(parts)


def thirds(X):
    return [X[:200], X[200:400], X[400:]]


@pytest.mark.parametrize("missing", [1, 150])
@pytest.mark.parametrize("model", [AdaAM(10, engine="dask"), AdaAMClustering(10, engine="dask")])
def test_a_chunk_with_fewer_rows_than_announced_is_refused(digits, model, missing):
    """Regression: the fit continued silently, and rows got the weights and labels of others."""
    chunks = thirds(digits)
    chunks[1] = chunks[1][:-missing]
    rows = announced_as(chunks, [(200, 64)] * 3, [np.float64] * 3)
    with pytest.raises(ValueError, match=rf"chunk \(1, 0\).*\({200 - missing}, 64\).*\(200, 64\) were announced.*comp"):
        model.fit(rows)


def test_the_way_out_of_false_sizes_works(digits):
    chunks = thirds(digits)
    chunks[1] = chunks[1][:-7]
    rows = announced_as(chunks, [(200, 64)] * 3, [np.float64] * 3)
    rows.compute_chunk_sizes()
    found, expected = AdaAM(10, engine="dask").fit(rows), AdaAM(10).fit(np.concatenate(chunks))
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


@pytest.mark.parametrize("method", ["transform", "predict"])
def test_new_rows_and_weights_are_compared_with_what_they_announce(digits, chunked, method):
    model = AdaAMClustering(10, learner=AdaAM(10, engine="dask"), head="k-means").fit(chunked(digits))
    rows = announced_as([digits[:150], digits[200:300]], [(200, 64), (100, 64)], [np.float64] * 2)
    with pytest.raises(ValueError, match=r"\(150, 64\) numbers, but \(200, 64\) were announced"):
        getattr(model, method)(rows).compute()
    weights = announced_as([np.ones(300), np.ones(250)], [(300,), (300,)], [np.float64] * 2)
    with pytest.raises(ValueError, match=r"sample_weight: chunk \(1,\).*\(250,\).*\(300,\) were announced"):
        AdaAM(10, engine="dask").fit(chunked(digits), sample_weight=weights)


def test_chunks_of_a_narrower_precision_than_announced_are_widened(digits):
    """Regression: they raised a raw broadcast error, or were read as other numbers."""
    chunks = thirds(digits)
    mixed = [chunks[0].astype(np.float32), chunks[1].astype(np.uint8), chunks[2]]
    rows = announced_as(mixed, [(200, 64)] * 3, [np.float64] * 3)
    found, expected = AdaAM(10, engine="dask").fit(rows), AdaAM(10).fit(digits)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
    np.testing.assert_allclose(found.transform(rows).compute(), expected.transform(digits), atol=1e-9)


@pytest.mark.parametrize("found", [np.float64, np.complex128, np.dtype("U3")])
def test_chunks_that_the_announced_precision_cannot_hold_are_refused(digits, found):
    chunks = thirds(digits)
    chunks[2] = chunks[2].astype(found)
    rows = announced_as(chunks, [(200, 64)] * 3, [np.float32] * 3)
    with pytest.raises(ValueError, match=r"chunk \(\d, 0\).*but float32 was announced, which cannot hold"):
        AdaAM(10, engine="dask").fit(rows)


def test_a_chunk_emptied_by_a_filter_is_mapped_to_no_rows(digits, chunked):
    X = np.concatenate([digits, digits[:100] - 50.0])
    rows = da.from_array(X, chunks=((200, 200, 200, 50, 50), (64,)))
    kept = rows[rows.min(axis=1) >= 0.0]  # the last two chunks are empty
    for model in (
        AdaAM(10, engine="dask"),
        LPP(2, engine="dask"),
        AdaAMClustering(10, learner=AdaAM(10, engine="dask"), head="k-means"),
        AdaAMClustering(10, learner=AdaAM(10, engine="dask"), head="graph"),
    ):
        model.fit(kept)
        Z = model.transform(kept)
        assert 0 in Z.chunks[0]
        np.testing.assert_allclose(Z.compute(), model.transform(digits), atol=1e-10)
        if hasattr(model, "predict"):
            np.testing.assert_array_equal(model.predict(kept).compute(), model.predict(digits))


def test_new_rows_of_magnitudes_that_cannot_be_squared_are_refused_on_the_workers(digits, chunked):
    model = LPP(2, engine="dask").fit(chunked(digits))
    with pytest.raises(ValueError, match="overflow in float64"):
        model.transform(chunked(digits * 1e160)).compute()
    with pytest.raises(ValueError, match="overflow in float64"):
        LPP(2, engine="dask").fit(chunked(digits * 1e160))


def test_weights_that_sum_to_one_are_relative_on_the_workers(digits, chunked):
    weights = da.full(600, 1 / 600, chunks=250)
    found, expected = AdaAM(10, engine="dask").fit(chunked(digits), sample_weight=weights), AdaAM(10).fit(digits)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


def test_one_outlier_leaves_a_map_on_the_workers(rng, chunked):
    X = rng.standard_normal((200, 5))
    X[:100] += 4
    X[0] = 100
    found, expected = (AdaAM(2, preparation="linear", engine=engine) for engine in ("dask", "cpu"))
    with pytest.warns(UserWarning, match="pieces"):
        expected.fit(X)
    with pytest.warns(UserWarning, match="pieces"):
        found.fit(chunked(X))
    assert len(found.components_) > 0
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)


def test_a_scheduler_may_be_given_by_its_address(digits, client, new_cluster):
    address = client.scheduler.address
    expected = AdaAM(10).fit(digits)
    for engine in (DaskEngine(client=address), pickle.loads(pickle.dumps(DaskEngine(client=address)))):
        found = AdaAM(10, engine=engine).fit(digits)
        np.testing.assert_allclose(found.components_, expected.components_, atol=1e-9)
    with new_cluster(1, current=False) as other:
        engine = DaskEngine(client=other.scheduler.address)
        AdaAM(10, engine=engine).fit(digits)
        assert engine._workers().client is engine._workers().client, "one connection, not one for each question"
        assert engine._workers().client.scheduler.address == other.scheduler.address != address
        engine._workers().client.close()


def test_what_is_no_client_is_refused(digits):
    with pytest.raises(TypeError, match=r"client=7 is a int; pass a distributed.Client, the address"):
        AdaAM(10, engine=DaskEngine(client=7)).fit(digits)
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        for address in ("tcp://127.0.0.1:9", "nowhere"):
            with pytest.raises(ClusterError, match="no Dask scheduler answers at this address"):
                AdaAM(10, engine=DaskEngine(client=address)).fit(digits)
