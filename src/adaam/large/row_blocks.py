"""Settings of a fit from pairs within random row blocks."""

from sklearn.base import BaseEstimator

from adaam._checks import check_whole

# Chosen by angles to the fit on all pairs (decision 0010); a cluster needs rows of its own in each block.
BLOCK_ROWS = 5_000
BLOCK_ROWS_PER_CLUSTER = 100


class RowBlocks(BaseEstimator):
    """Learn from the pairs within random blocks of rows: cost grows with n, not with n².

    Rows are assigned to blocks at random. Neighbours and pruned affinities are computed within each block, and the
    small matrices of all blocks are added up before each eigenproblem, so every direction is learned from all rows in
    blocks.

    Parameters
    ----------
    n_rows : int, default=None
        Largest number of rows of a block; the sizes of blocks differ by one at most. Larger blocks are closer to all
        pairs and cost proportionally more. None means 5,000, or 100 for each cluster if that is more.
    n_blocks : int, default=None
        Number of blocks. None means enough for all rows, or for one GiB of the rows of a file. Rows in no block are
        not used.
    random_state : int, default=0
        Seed of the assignment. With another order of rows, or another seed, the map changes within the angles of
        `stability_`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from adaam import AdaAM, RowBlocks
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = AdaAM(10, pairs=RowBlocks(n_rows=450)).fit(X)
    >>> model.pairs_
    RowBlocks(n_blocks=4, n_rows=450)
    >>> len(model.stability_.angles)
    10
    """

    def __init__(self, n_rows: int | None = None, n_blocks: int | None = None, random_state: int = 0) -> None:
        self.n_rows = n_rows
        self.n_blocks = n_blocks
        self.random_state = random_state

    def check(self) -> None:
        """Raise if a setting is out of range."""
        if self.n_rows is not None:
            check_whole("n_rows", self.n_rows, at_least=2)
        if self.n_blocks is not None:
            check_whole("n_blocks", self.n_blocks)
        check_whole("random_state", self.random_state, at_least=0)

    def block_rows(self, n_clusters: int) -> int:
        """Rows of a block, at most."""
        return max(BLOCK_ROWS, BLOCK_ROWS_PER_CLUSTER * n_clusters) if self.n_rows is None else self.n_rows
