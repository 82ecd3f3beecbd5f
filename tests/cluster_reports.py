"""Synthetic reports made without a fit, of rows around the corners of a grid; every part is known."""

from dataclasses import replace

import numpy as np

from adaam.cluster_report import (
    Borderline,
    CardEffect,
    Choice,
    ClusterCard,
    CountCurve,
    ReportColumn,
    ReportData,
    ReportLayer,
)
from adaam.cluster_words import cluster_words

EVIL = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>\u2028 & \" ` ${title}"
CHOICE = Choice(
    metric="rows as they are, preparation “unit”, 8 columns",
    head="graph",
    headings=("preparation", "metric", "head", "modularity"),
    trials=(("unit", "rows as they are", "k-means", "0.701"), ("unit", "rows as they are", "graph", "0.822")),
    chosen=1,
    steps=("Start: k-means on rows as they are, modularity 0.701.", "graph: +0.121 ± 0.004, taken."),
    count=CountCurve(4, 3, 5, (0.0, 0.4, 0.6, 0.8, 0.7), (None, 0.9, 0.8, 0.7, 0.1), ("Four.",)),
)


def synthetic_report(n_rows=300, n_clusters=4, *, n_shown=None, evil=False, seed=0, **parts):
    """Return a report of rows around the corners of a grid; `parts` replaces or adds fields of `ReportData`.

    The two coarse clusters of the first layer are the even and the odd clusters; every tenth row has a low strength.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(n_rows) % n_clusters
    side = int(np.ceil(np.sqrt(n_clusters)))
    corners = np.array([(4.0 * (c % side), 4.0 * (c // side)) for c in range(n_clusters)])
    places = corners[labels] + 0.5 * rng.normal(size=(n_rows, 2))
    strengths = np.where(np.arange(n_rows) % 10 == 3, 0.3, 0.9)
    outlier_scores = np.where(np.arange(n_rows) % 97 == 5, 0.8, 0.1)
    shown = np.arange(n_rows) if n_shown is None else np.sort(rng.choice(n_rows, n_shown, replace=False))
    name, bad_names = (EVIL, {0: EVIL, 1: "=1+1"}) if evil else ("width", {})
    cards = tuple(
        ClusterCard(
            label=c,
            size=int((labels == c).sum()),
            strength=float(strengths[labels == c].mean()),
            firmness=0.9,
            summary=f"high {name}",
            effects=(CardEffect(name, 1.5, 0.85, 2.0, 1.0), CardEffect("height", -np.inf, 0.0, 1.0, 3.0)),
            exemplars=tuple(int(row) for row in shown[labels[shown] == c][:3]),
            borderline=(Borderline(int(shown[labels[shown] == c][3]), 0.3, (c + 1) % n_clusters),),
            neighbors=(((c + 1) % n_clusters, 0.12),),
        )
        for c in range(n_clusters)
    )
    coarse = labels % 2
    layers = (
        ReportLayer(coarse, tuple(np.bincount(coarse).tolist()), (0.95, 0.9), (0, 1)),
        ReportLayer(labels, tuple(np.bincount(labels).tolist()), (0.9,) * n_clusters, tuple(range(n_clusters))),
    )
    tree = {(0, half): tuple((1, c) for c in range(n_clusters) if c % 2 == half) for half in (0, 1)}
    values = {
        "title": EVIL if evil else "made up",
        "n_features": 2,
        "labels": labels,
        "strengths": strengths,
        "outlier_scores": outlier_scores,
        "shown": shown,
        "neighbor_map": places[shown],
        "plane": places[shown][:, ::-1] * [1.0, -1.0],
        "cards": cards,
        "choice": CHOICE,
        "columns": (
            ReportColumn(name, tuple(float(value) for value in places[shown, 0])),
            ReportColumn("kind", tuple(EVIL if evil and row % 3 == 0 else f"kind {row % 3}" for row in shown)),
            ReportColumn("gaps", tuple(None if row % 5 == 0 else float(row) for row in shown)),
        ),
        "ids": tuple(f"{bad_names.get(row, 'id')}-{row}" for row in range(n_rows)),
        "layers": layers,
        "tree": tree,
        "outliers": tuple(int(row) for row in shown if outlier_scores[row] > 0.5),
    }
    return ReportData(**(values | parts))


TOPICS = (
    "card payment declined terminal chip",
    "transfer pending recipient delay bank",
    "refund merchant return cancelled order",
    "exchange rate currency conversion markup",
    "passcode forgotten reset locked app",
    "fee monthly charge statement unexpected",
    "delivery parcel lost courier tracking",
    "identity passport verification photo rejected",
    "salary deposit missing employer payday",
    "cash withdrawal machine swallowed limit",
    "loan interest instalment mortgage offer",
    "insurance travel claim luggage cover",
    "pension savings account transfer",
)


def requests(n_rows=390, seed=0):
    """Return short texts about thirteen topics, and the topic of each."""
    rng = np.random.default_rng(seed)
    topic = np.arange(n_rows) % len(TOPICS)
    openings = ("Why is", "I have a question about", "Please help with", "There is a problem with", "Who can explain")
    said = []
    for row, place in enumerate(topic):
        words = rng.permutation(TOPICS[place].split())[: rng.integers(3, 6)]
        stray = rng.choice(TOPICS[rng.integers(len(TOPICS))].split())
        said.append(
            f"{openings[row % len(openings)]} my {' '.join(words)} {stray if row % 3 == 0 else ''}".strip() + "?"
        )
    return said, topic


def sentence_vectors(texts, n_columns=24):
    """Return vectors like those of a sentence encoder: of unit length, and close if texts share words."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    weights = TfidfVectorizer(sublinear_tf=True).fit_transform(texts)
    return normalize(TruncatedSVD(n_columns, random_state=0).fit_transform(weights))


def texts_and_cards(report, subjects):
    """Return texts about one subject per cluster, cards with its words, and the other fields of such a report."""
    texts = [f"A question about {subjects[label]}, number {row}" for row, label in enumerate(report.labels)]
    words = cluster_words(texts, report.labels, report.n_clusters)
    cards = tuple(
        replace(card, effects=(), words=tuple(words[card.label]), summary=words[card.label][0].word)
        for card in report.cards
    )
    return {"texts": tuple(texts[row] for row in report.shown), "cards": cards, "columns": (), "ids": None}
