"""Search over metrics and heads: all are scored by modularity; the simplest that none clearly beats is chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from adaam._typing import FloatMatrix, FloatVector, IntVector
from adaam.engines import Engine
from adaam.engines.blocks import at, ordered_map
from adaam.partition import N_ERRORS, View, best_partition, modularity_gain, row_modularity
from adaam.prepare import PREPARATIONS, unit_rows
from adaam.projection import discriminant
from adaam.selection.family import FEWEST_COLUMNS, Candidate, Prepared, learned_maps, learning_rows, random_rows
from adaam.selection.report import Selection, Trial
from adaam.selection.reproducibility import Way, compare

HEADS = ("k-means", "graph")
# k-means on the rows as they are is the first trial and rarely the choice, so it is approximated: at most SKETCH_STARTS
# starts on a sample of the rows and their leading columns, as many as clusters but at least SKETCH_COLUMNS. (The
# relaxed solution has one dimension fewer than clusters: Ding, He 2004.) With many clusters, one start is as good as
# another. If k-means is chosen, it is run again in full.
SKETCH_STARTS = 3
SKETCH_COLUMNS = 32
# Fixed, so that the choice depends on the rows alone and not on the caller's seed.
SEARCH_SEED = 0
# Starts of each graph partition if several are about equally good; with a single start, chance would decide.
CLOSE_STARTS = 4
# Least sum of the gains in separation and reproducibility with which a learned metric is taken: about the uncertainty
# that so few samples of the rows leave.
LEAST_GAIN = 0.02
# Most rows on which metrics are compared in discriminant maps, each of which needs a graph of its own.
SEPARATION_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Task:
    """Settings of the clusterer."""

    n_clusters: int
    heads: Sequence[str]
    n_init: int
    seed: int
    engine: Engine


@dataclass(frozen=True, slots=True)
class Contender:
    """A metric in the search: the rows mapped by it, and its name in reports."""

    preparation: str
    name: str
    view: View
    source: Prepared | None = None
    width: int = 0
    cosine: bool = False

    def by_cosine(self) -> "Contender":
        """Return the same metric with neighbours by cosine distance."""
        view = self.view
        scaled = View(unit_rows(view.Z, view.engine), view.weights, view.engine, view.ranks)
        return replace(self, name=f"{self.name}, cosine", view=scaled, cosine=True)

    @property
    def has_directions(self) -> bool:
        """Whether cosine distance suits the rows: their preparation disregards lengths, and they have enough columns.

        Directions have one dimension fewer than rows, and a graph in few dimensions has a high modularity.
        """
        return PREPARATIONS[self.preparation].row_scaling == "unit" and self.view.Z.shape[1] >= FEWEST_COLUMNS

    @property
    def learned(self) -> bool:
        """Whether the metric was learned in the search."""
        return self.width > 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A metric, the partition by one head in it, and the contribution of each row to the modularity on its graph."""

    contender: Contender
    head: str
    labels: IntVector  # on the host
    rows: FloatVector
    separated: FloatVector | None = None  # the same on the graphs in the discriminant maps of the partition

    @property
    def modularity(self) -> float:
        """Modularity on the metric's own graph."""
        return float(self.rows.sum())

    @property
    def separation(self) -> float | None:
        """Modularity in the discriminant maps of the partition, if they were made."""
        return None if self.separated is None else float(self.separated.sum())

    @property
    def level(self) -> int:
        """Level of simplicity: 0 for k-means, 1 for the graph of the rows as they are, 2 for a learned metric."""
        if self.contender.learned:
            return 2
        return 0 if self.head == "k-means" else 1

    @property
    def title(self) -> str:
        """Name in reports."""
        return f"{self.head} on {self.contender.name} ({self.contender.preparation})"


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen outcome and the report of the search."""

    outcome: Outcome
    selection: Selection


def search(prepared: Sequence[Prepared], task: Task, tell: Callable[[str], None]) -> Choice:
    """Partition the rows in every metric of the family, and choose a metric and a head.

    The criterion is modularity on the metric's own ten-neighbour graph. It is compared level by level: k-means on the
    rows as they are, partitions of their graph, partitions in a learned metric. Within each of the first two levels the
    highest wins; the best of a later level is taken only if its gain exceeds two standard errors over the rows.

    Neighbours are found by Euclidean distance. For rows of unit length, as they are and in their narrowest map, cosine
    distance is tried too, and taken if its modularity is clearly higher; wider maps follow the narrowest.

    If the narrowest map of a preparation is clearly worse than that of another, its wider maps are not tried.

    A graph in few dimensions has a high modularity whatever the clusters, and a map that is learned from links has few
    links between clusters. So learned metrics must gain by two measures more (`_contest`). Separation is modularity in
    the same number of dimensions for all: on graphs in discriminant maps of the partition, each made from one half of
    the rows for the other half, of one column fewer than there are clusters. Among learned metrics, the highest
    separation wins. Reproducibility is the agreement of clusters from different samples of the rows. The sum of the
    gains over the simpler outcome must be at least `LEAST_GAIN`. With eight clusters or fewer, discriminant maps have
    too few columns: the learned metric of highest modularity must then gain in reproducibility alone.
    """
    plain = [partial(Contender, p.name, Candidate(p.name, 0).name, p.view(), p) for p in prepared]
    outcomes = _compared_closely(_at_better_distance(_outcomes(plain, task, tell), task), task)
    kept = {outcome.contender.preparation: outcome.contender.cosine for outcome in _worth_learning(outcomes)}

    def learned(source: Prepared, candidate: Candidate, components: Callable[[], FloatMatrix]) -> Contender:
        return Contender(source.name, candidate.name, source.view(components()), source, candidate.width)

    narrowest, wider = [], {}
    for source in prepared:
        if source.name in kept:
            contenders = [partial(learned, source, *each) for each in learned_maps(source, task.n_clusters)]
            narrowest += contenders[:1]
            wider[source.name] = contenders[1:]
    narrow = _at_better_distance(_outcomes(narrowest, task, tell), task)
    kept = {outcome.contender.preparation: outcome.contender.cosine for outcome in _worth_learning(narrow)}
    following = [partial(_by, each, cosine) for name, cosine in kept.items() for each in wider[name]]
    outcomes += narrow + _outcomes(following, task, tell)
    outcomes = _with_all_clusters(outcomes, task.n_clusters)
    chosen, steps, outcomes = _climb(outcomes, task)
    trials = tuple(_trial(outcome, chosen) for outcome in outcomes)
    return Choice(chosen, Selection(trials, tuple(steps), len(chosen.labels)))


def given_metric(contender: Contender, task: Task) -> Choice:
    """Partition the rows in a given metric, and choose the head by modularity."""
    outcomes = _with_all_clusters(_outcomes([lambda: contender], task, lambda text: None), task.n_clusters)
    chosen, steps, outcomes = _climb(outcomes, task)
    return Choice(chosen, Selection(tuple(_trial(o, chosen) for o in outcomes), tuple(steps), len(chosen.labels)))


def _by(contender: Callable[[], Contender], cosine: bool) -> Contender:
    return contender().by_cosine() if cosine else contender()


def _outcomes(contenders: Sequence[Callable[[], Contender]], task: Task, tell: Callable[[str], None]) -> list[Outcome]:
    """Partition the rows in every metric, by every requested head that suits it."""

    def found(contender: Contender) -> list[Outcome]:
        # k-means in a learned metric would be a fourth level; the graph head, which the metric is made for, is used.
        heads = [h for h in task.heads if h != "k-means" or not contender.learned or "graph" not in task.heads]
        return [_partitioned(contender, head, task) for head in heads]

    outcomes: list[Outcome] = []
    # A partition runs on one thread, so metrics are learned and partitioned in parallel.
    for some in ordered_map(lambda contender: found(contender()), contenders):
        contender = some[0].contender
        tell(f"candidate {contender.preparation}: {contender.name}")
        outcomes += some
    return outcomes


def _replaced(outcomes: list[Outcome], some: list[Outcome], by: Callable[[Outcome], Outcome]) -> list[Outcome]:
    """Replace some of the outcomes, in parallel."""
    found = iter(ordered_map(by, some))
    return [next(found) if any(outcome is each for each in some) else outcome for outcome in outcomes]


def _at_better_distance(outcomes: list[Outcome], task: Task) -> list[Outcome]:
    """Replace graph partitions by those at cosine distance, if it suits the rows and is clearly better."""

    def better(outcome: Outcome) -> Outcome:
        by_cosine = _partitioned(outcome.contender.by_cosine(), outcome.head, task)
        return by_cosine if modularity_gain(by_cosine.rows, outcome.rows).is_clear else outcome

    return _replaced(outcomes, [o for o in outcomes if o.head == "graph" and o.contender.has_directions], better)


def _compared_closely(outcomes: list[Outcome], task: Task) -> list[Outcome]:
    """Make further starts of the graph partitions that the best does not clearly beat, if there are several."""
    graphs = [outcome for outcome in outcomes if outcome.head == "graph"]
    top = max(graphs, key=_modularity, default=None)
    close = [o for o in graphs if top is not None and not modularity_gain(top.rows, o.rows).is_clear]
    if len(close) < 2:
        return outcomes

    def best(outcome: Outcome) -> Outcome:
        further = _partitioned(outcome.contender, outcome.head, task, range(1, CLOSE_STARTS))
        return max(outcome, further, key=_modularity)

    return _replaced(outcomes, close, best)


def _partitioned(contender: Contender, head: str, task: Task, starts: range = range(1)) -> Outcome:
    view = contender.view
    labels = _labels(head, task, view, starts)
    return Outcome(contender, head, np.asarray(view.links.to_host(labels)), row_modularity(view.links, labels))


def _labels(head: str, task: Task, view: View, starts: range = range(1)) -> Any:
    """Cluster of each row by a head, stored like the links."""
    if head == "graph":
        return best_partition(view, task.n_clusters, SEARCH_SEED, starts).labels
    return view.links.asarray(_sketched_kmeans(view, task))


def _sketched_kmeans(view: View, task: Task) -> IntVector:
    """Labels of all rows, by k-means on a sample of them."""
    engine, weights = view.engine, view.engine.asarray(view.weights)
    Z = view.Z[:, : max(SKETCH_COLUMNS, task.n_clusters)]
    some: Any = slice(None)
    n_some = learning_rows(task.n_clusters)
    if n_some < view.n_rows and view.ranks is not None:
        some = random_rows(view.ranks, n_some, seed=SEARCH_SEED)
    n_init = max(1, min(task.n_init, SKETCH_STARTS, SKETCH_COLUMNS // task.n_clusters))
    found = engine.kmeans(Z[some], task.n_clusters, n_init, SEARCH_SEED, at(weights, some))
    return engine.nearest_known(Z, found.centers, 1)[0][:, 0]


def _worth_learning(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Best outcome of each preparation, except those that another preparation clearly beats."""
    names = dict.fromkeys(outcome.contender.preparation for outcome in outcomes)
    best = [max((o for o in outcomes if o.contender.preparation == name), key=_modularity) for name in names]
    if not best:
        return []
    top = max(best, key=_modularity)
    return [o for o in best if not modularity_gain(top.rows, o.rows).is_clear]


def _with_all_clusters(outcomes: list[Outcome], n_clusters: int) -> list[Outcome]:
    """Leave out partitions with fewer clusters than requested, unless all have fewer."""
    whole = [outcome for outcome in outcomes if len(np.unique(outcome.labels)) == n_clusters]
    return whole or outcomes


def _climb(outcomes: list[Outcome], task: Task) -> tuple[Outcome, list[str], list[Outcome]]:
    """Compare levels in order and take clear gains; a learned metric is then compared more closely (`_contest`)."""
    outcomes = sorted(outcomes, key=lambda outcome: outcome.level)
    current: Outcome | None = None
    steps = []
    for level in sorted({outcome.level for outcome in outcomes}):
        best = max((outcome for outcome in outcomes if outcome.level == level), key=_modularity)
        if current is None:
            current = best
            steps.append(f"Start: {best.title}, modularity {best.modularity:.3f}.")
            continue
        gain = modularity_gain(best.rows, current.rows)
        found = f"{best.title}: {gain.value:+.4f} ± {gain.standard_error:.4f}"
        if not gain.is_clear:
            steps.append(f"{found}, not taken: a gain must exceed {N_ERRORS:g} standard errors.")
        elif level < 2:
            steps.append(f"{found}, taken.")
            current = best
        else:
            steps.append(f"{found}, clearly better.")
            current, further, outcomes = _contest(best, current, outcomes, task)
            steps += further
    assert current is not None
    return current, steps, outcomes


def _contest(
    learned: Outcome, simpler: Outcome, outcomes: list[Outcome], task: Task
) -> tuple[Outcome, list[str], list[Outcome]]:
    """Decide between learned metrics and a simpler outcome of clearly lower modularity (`search`)."""
    steps, gained = [], 0.0
    if discriminates(task.n_clusters):
        compared = [o for o in outcomes if o.contender.learned or o is simpler]
        scored = _replaced(outcomes, compared, partial(_separated, task=task))
        simpler = next(after for before, after in zip(outcomes, scored, strict=True) if before is simpler)
        outcomes = _separated_closely(scored, task)
        learned = max((o for o in outcomes if o.contender.learned), key=_separation)
        gained = _separation(learned) - _separation(simpler)
        steps.append(
            f"Of the learned metrics, {learned.title} separates its clusters best: modularity {learned.separation:.3f} "
            f"in discriminant maps, {simpler.separation:.3f} for {simpler.title}."
        )
    found = compare(_way(learned, task), _way(simpler, task), task.n_clusters, gained)
    lost = gained + found.gain < LEAST_GAIN
    if not np.isnan(found.first):
        steps.append(
            f"Adjusted Rand index of clusters from different samples of the rows: {found.first:.2f} for "
            f"{learned.title}, {found.second:.2f} for {simpler.title}."
        )
    verdict = f"not taken: the sum must be at least {LEAST_GAIN:g}" if lost else "taken"
    steps.append(f"{learned.title}: gains {gained + found.gain:+.3f} in all, {verdict}.")
    return simpler if lost else learned, steps, outcomes


def _way(outcome: Outcome, task: Task) -> Way:
    contender = outcome.contender
    assert contender.source is not None
    return Way(contender.source, contender.width, contender.cosine, partial(_labels, outcome.head, task))


def discriminates(n_clusters: int) -> bool:
    """Whether the discriminant map of `n_clusters` clusters has enough columns for a graph."""
    return n_clusters > FEWEST_COLUMNS


def _separated(outcome: Outcome, task: Task) -> Outcome:
    """Return the outcome with its separation: the modularity in discriminant maps of its partition.

    The map for one half of the rows is made from the other half, so that it does not fit accidents of the partition.
    """
    source, labels = outcome.contender.source, outcome.labels
    assert source is not None
    if len(labels) > SEPARATION_ROWS:
        some = random_rows(source.ranks, SEPARATION_ROWS, seed=SEARCH_SEED)
        source, labels = source.some(some), labels[some]
    first = random_rows(source.ranks, len(labels) // 2, seed=SEARCH_SEED)
    second = np.setdiff1d(np.arange(len(labels)), first)
    separated = np.empty(len(labels))
    for made_from, rows in ((first, second), (second, first)):
        components = discriminant(source.some(made_from).sample, labels[made_from], task.n_clusters).components
        view = source.some(rows).view(components, cosine=outcome.contender.cosine)
        separated[rows] = row_modularity(view.links, view.links.asarray(labels[rows])) / 2.0
    return replace(outcome, separated=separated)


def _separated_closely(outcomes: list[Outcome], task: Task) -> list[Outcome]:
    """Make further starts in the learned metrics whose separation is not clearly lower than the highest."""
    learned = [outcome for outcome in outcomes if outcome.contender.learned]
    top = max(learned, key=_separation)

    def is_close(outcome: Outcome) -> bool:
        assert outcome.separated is not None
        assert top.separated is not None
        return not modularity_gain(top.separated, outcome.separated).is_clear

    close = [outcome for outcome in learned if is_close(outcome)]
    if len(close) < 2:
        return outcomes

    def best(outcome: Outcome) -> Outcome:
        further = _partitioned(outcome.contender, outcome.head, task, range(1, CLOSE_STARTS))
        return _separated(further, task) if further.modularity > outcome.modularity else outcome

    return _replaced(outcomes, close, best)


def _separation(outcome: Outcome) -> float:
    return outcome.separation or 0.0


def _modularity(outcome: Outcome) -> float:
    return outcome.modularity


def _trial(outcome: Outcome, chosen: Outcome) -> Trial:
    contender = outcome.contender
    return Trial(
        preparation=contender.preparation,
        metric=contender.name,
        head=outcome.head,
        n_components=int(contender.view.Z.shape[1]),
        modularity=outcome.modularity,
        agreement=float(adjusted_rand_score(chosen.labels, outcome.labels)),
        chosen=outcome is chosen,
        separation=outcome.separation,
    )
