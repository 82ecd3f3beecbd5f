"""Which entries of a sparse matrix have a partner across the diagonal, and where it is."""

import numpy as np
from scipy.sparse import csr_array

from adaam._typing import IntVector


def reverse_entries(starts: IntVector, indices: IntVector) -> IntVector:
    """Position of entry (j, i) for each entry (i, j) of compressed rows without repeated entries; -1 if absent.

    Turning a matrix over sorts it by counting, so that two turns leave one list of keys for the entries and one for
    their partners, both ascending: looking one up in the other then walks through memory in order.
    """
    n, n_entries = len(starts) - 1, len(indices)
    narrow = np.int32 if max(n, n_entries) < np.iinfo(np.int32).max else np.int64
    positions = np.arange(n_entries, dtype=narrow)
    by_rows = csr_array((positions, indices.astype(narrow), starts.astype(narrow)), shape=(n, n))
    by_columns = csr_array(by_rows.T)
    by_rows = csr_array(by_columns.T)
    forward, backward = _keys(by_rows), _keys(by_columns)
    at = np.minimum(np.searchsorted(forward, backward), max(n_entries - 1, 0))
    reverse = np.full(n_entries, -1, dtype=np.intp)
    # by_columns holds at (j, i) where entry (i, j) stands; its partner is the entry (j, i) itself.
    reverse[by_columns.data] = np.where(forward[at] == backward, by_rows.data[at], -1) if n_entries else -1
    return reverse


def _keys(matrix: csr_array) -> IntVector:
    """Row and column of each entry as one number."""
    n = matrix.shape[0]
    rows = np.repeat(np.arange(n, dtype=np.int64) * n, np.diff(matrix.indptr))
    return np.asarray(rows + matrix.indices)
