"""HTML parts of the page: cards of clusters, rows as examples, the layer tree, the method."""

from collections.abc import Sequence
from html import escape

import numpy as np

from adaam.cluster_report.cards import LONGEST_NAME, shortened
from adaam.cluster_report.data import CardEffect, Choice, ClusterCard, CountCurve, Node, ReportData
from adaam.cluster_words import WordEffect
from adaam.palette import cluster_color
from adaam.webpage import data_url, diverging_palette, png

MAX_TEXT = 220  # characters of a text in an example
LARGEST_BAR = 3.0  # standard deviations that fill half of a bar's track
N_VALUES = 3  # columns named beside an example
N_OUTLIERS = 24
OUTLYING = 0.5  # outlier scores below this are not called high
LEAST_SHARE = 0.02  # of the rows; the number of a smaller cluster does not fit into the layer tree
MAX_UNFOLDED = 40
HEADS = {"graph": "communities of the neighbour graph", "k-means": "k-means"}
GIVEN = "The number of clusters was given. With n_clusters=&quot;auto&quot; it is estimated."


def number(value: float) -> str:
    """Return a number with about three digits, for reading."""
    if not np.isfinite(value):
        return "∞" if value > 0 else "−∞"
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def percent(share: float) -> str:
    """Return a share in per cent, with one decimal if it is small."""
    if 0 < share < 0.0005:
        return "under 0.1 %"
    return f"{100 * share:.1f} %" if 0 < share < 0.0995 else f"{100 * share:.0f} %"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def hue(color: int, more: str = "") -> str:
    """Return the style attribute that gives an element of class `hue` a colour of the palette, in either theme."""
    return _hues(cluster_color(color), cluster_color(color, "dark"), more)


def _hues(light: str, dark: str, more: str = "") -> str:
    return f'style="--light:{light};--dark:{dark};{more}"'


def cluster_chip(label: int, words: str = "") -> str:
    """Return a link to a cluster's card, in its colour."""
    said = f"<small>{escape(words)}</small>" if words else ""
    return f'<a class="chip hue" {hue(label)} href="#cluster-{label}"><i class="swatch"></i>{label}{said}</a>'


def card(data: ReportData, each: ClusterCard) -> str:
    """Return the card of a cluster."""
    facts = [plural(each.size, "row"), percent(each.size / data.n_rows), f"strength&nbsp;{each.strength:.2f}"]
    if each.firmness is not None:
        facts.append(f"firmness&nbsp;{each.firmness:.2f}")
    parts = [
        f'<h3><i class="swatch"></i>Cluster {each.label}</h3>',
        f'<p class="summary">{escape(each.summary)}</p>' if each.summary else "",
        f'<p class="meta">{" · ".join(facts)}</p>',
        _part("What sets it apart", _apart(data, each), "effects"),
        _part("Exemplars", examples(data, each.exemplars, each), "exemplars"),
        _part("Borderline rows", _borderline(data, each), "borderline"),
        _part("Neighbouring clusters", _neighbors(each), "neighbors"),
        f'<p class="actions"><button type="button" class="plain" data-highlight="{each.label}">Show on the map</button>'
        f'<button type="button" class="plain" data-list="{each.label}">List its rows</button></p>',
    ]
    return f'<li class="card cluster hue" id="cluster-{each.label}" {hue(each.label)}>{"".join(parts)}</li>'


def _part(title: str, content: str, name: str) -> str:
    return f'<div class="{name}"><h4>{title}</h4>{content}</div>' if content else ""


def _apart(data: ReportData, each: ClusterCard) -> str:
    told = _pictures(each) + _words(each) + _effects(each.effects)
    # If other clusters have effects or words, say that this one has none.
    is_told = any(other.effects or other.words for other in data.cards)
    return told or ("<p>No single feature stands out.</p>" if is_told else "")


def _pictures(each: ClusterCard) -> str:
    if each.pictures is None:
        return ""
    mean, effect = data_url(png(each.pictures.mean)), data_url(png(each.pictures.effect, diverging_palette()))
    said = "brown: brighter than in the other clusters, blue: darker"
    return (
        f'<div class="means"><figure><img src="{mean}" alt="Mean image of cluster {each.label}">'
        f'<figcaption>mean</figcaption></figure><figure><img src="{effect}" alt="Effect of each pixel; {said}" '
        f'title="{said}"><figcaption>against the rest</figcaption></figure></div>'
    )


def _effects(effects: Sequence[CardEffect]) -> str:
    return f'<ul class="bars">{"".join(map(_effect, effects))}</ul>' if effects else ""


def _effect(each: CardEffect) -> str:
    width = 50 * min(abs(each.effect), LARGEST_BAR) / LARGEST_BAR
    left = 50.0 if each.effect > 0 else 50.0 - width
    share = each.superiority if each.effect > 0 else 1 - each.superiority
    said = f"{number(each.mean)} here, {number(each.rest_mean)} elsewhere; "
    said += f"{'higher' if each.effect > 0 else 'lower'} in {percent(share)} of comparisons with other rows"
    sign = "+" if each.effect > 0 else ""
    return (
        f'<li title="{escape(said)}"><span class="name">{escape(each.name)}</span>'
        f'<span class="track" aria-hidden="true"><i style="left:{left:.1f}%;width:{width:.1f}%"></i></span>'
        f"<b>{sign}{_effect_size(each.effect)}</b>"
        f'<small>{number(each.mean)}<span class="sr"> here</span> <i>vs</i> {number(each.rest_mean)}'
        '<span class="sr"> elsewhere</span></small></li>'
    )


def _effect_size(effect: float) -> str:
    return f"{effect:.1f}".replace("-", "−") if np.isfinite(effect) else ("∞" if effect > 0 else "−∞")


def _words(each: ClusterCard) -> str:
    told = "".join(_word("", word) for word in each.words)
    told += "".join(_word(name, word) for name, word in each.categories)
    return f'<ul class="words">{told}</ul>' if told else ""


def _word(column: str, word: WordEffect) -> str:
    said = f"{percent(word.share)} of its rows, {percent(word.rest_share)} of the others"
    named = f"{column}: {word.word}; " if len(column) + len(word.word) > LONGEST_NAME else ""
    of = f"{escape(shortened(column))}: " if column else ""
    told = f"{of}<b>{escape(shortened(word.word))}</b> <small>{percent(word.share)}</small>"
    return f'<li title="{escape(named)}{said}">{told}</li>'


def examples(data: ReportData, rows: Sequence[int], of: ClusterCard | None = None, notes: Sequence[str] = ()) -> str:
    """Return rows as buttons that show them on the map: a picture, a text, or a name with a few values."""
    if not rows:
        return ""
    kind = "pictures" if data.images is not None else "lines"
    said = [f"<small>{note}</small>" for note in notes] or [""] * len(rows)
    items = "".join(
        f'<li><button type="button" class="example" data-row="{row}">{_row(data, row, of)}{note}</button></li>'
        for row, note in zip(rows, said, strict=True)
    )
    return f'<ul class="examples {kind}">{items}</ul>'


def _row(data: ReportData, row: int, of: ClusterCard | None) -> str:
    name, place = escape(data.row_name(row)), data.place(row)
    if data.images is not None:
        return f'<canvas data-place="{place}" role="img" aria-label="{name}"></canvas>'
    if data.texts is not None:
        text = data.texts[place]
        return f"<q>{escape(text if len(text) <= MAX_TEXT else text[:MAX_TEXT].rstrip() + ' …')}</q>"
    telling = [each.name for each in of.effects] if of is not None else []
    columns = sorted(data.columns, key=lambda each: telling.index(each.name) if each.name in telling else len(telling))
    values = [(each.name, each.values[place]) for each in columns[:N_VALUES]]
    told = " · ".join(f"{escape(shortened(key))}&nbsp;{escape(shortened(_value(value)))}" for key, value in values)
    return f"<b>{name}</b> <span>{told}</span>"


def _value(value: float | str | None) -> str:
    return "–" if value is None else value if isinstance(value, str) else number(value)


def _borderline(data: ReportData, each: ClusterCard) -> str:
    notes = [f"{one.strength:.2f}{'' if one.other is None else _or(one.other)}" for one in each.borderline]
    return examples(data, [one.row for one in each.borderline], each, notes)


def _or(label: int) -> str:
    said = '<span class="sr">, or cluster </span><i class="swatch"></i>'
    return f'<span class="or hue" {hue(label)}>{said}{label}</span>'


def _neighbors(each: ClusterCard) -> str:
    chips = (cluster_chip(label, percent(overlap) if overlap > 0 else "") for label, overlap in each.neighbors)
    return f'<p class="chips">{"".join(chips)}</p>' if each.neighbors else ""


def layer_tree(data: ReportData) -> str:
    """Return the layers as nested lists, coarsest outside; each cluster is a button."""
    own = next((k for k, each in enumerate(data.layers) if np.array_equal(each.labels, data.labels)), None)

    def branch(node: Node) -> str:
        layer, cluster = node
        size = data.layers[layer].sizes[cluster]
        children = data.tree.get(node, ())
        # On a phone, where lists are indented, layers of very many clusters stay collapsed.
        is_fine = bool(children) and len(data.layers[layer + 1].sizes) > MAX_UNFOLDED
        kind = ' class="fine"' if is_fine else ""
        inner = f"<ul{kind}>{''.join(map(branch, children))}</ul>" if children else ""
        n_parts = plural(len(children), "part")
        parts = f'<small class="parts">{n_parts}</small>' if is_fine else ""
        firmness = data.layers[layer].firmness
        firm = f", firmness {firmness[cluster]:.2f}" if firmness else ""
        words = f"layer {layer + 1}, cluster {cluster}: {plural(size, 'row')}{firm}"
        colors = _hues(data.layers[layer].color(cluster, "light"), data.layers[layer].color(cluster, "dark"))
        kinds = "node hue" + (" slim" if size < LEAST_SHARE * data.n_rows else "") + (" own" if layer == own else "")
        return (
            f'<li style="flex-grow:{max(size, 1)}"><button type="button" class="{kinds}" '
            f'{colors} data-layer="{layer}" data-cluster="{cluster}" '
            f'aria-pressed="false" aria-label="{words}" title="{words}"><b>{cluster}</b>'
            f"<small>{size:,}</small>{parts}</button>{inner}</li>"
        )

    roots = "".join(branch((0, cluster)) for cluster in range(len(data.layers[0].sizes)))
    return f'<ul class="tree panel">{roots}</ul>'


def outliers(data: ReportData) -> str:
    """Return the most outlying rows."""
    n_without = int((data.labels < 0).sum())
    told = []
    if n_without:
        told.append(f"{plural(n_without, 'row')} ({percent(n_without / data.n_rows)}) belong to no cluster.")
    least = "The outlier score is 0 for a typical row and near 1 for one that is far from everything else."
    if not data.outliers:
        told.append("No row stands out.")
    elif data.outlier_scores[data.outliers[0]] < OUTLYING:
        told.append(f"No row is far from all others. The rows below have the highest scores. {least}")
    else:
        told.append(f"The rows with the highest outlier scores. {least}")
    rows = data.outliers[:N_OUTLIERS]
    of = "" if data.images is not None else "score "
    notes = [f"{of}{data.outlier_scores[row]:.2f}" for row in rows]
    return f'<p class="hint">{" ".join(told)}</p>{examples(data, rows, None, notes)}'


def choice(each: Choice) -> str:
    """Return why this metric, head and number of clusters were chosen."""
    head = HEADS.get(each.head, each.head)
    told = f"<p>Metric: <strong>{escape(each.metric)}</strong>. Partition: <strong>{escape(head)}</strong>.</p>"
    told += _count(each.count) if each.count is not None else f'<p class="hint">{GIVEN}</p>'
    told += _trials(each) if each.trials else ""
    told += _steps(each.steps)
    return told


def _count(count: CountCurve) -> str:
    firm = (
        "other starts, thresholds and resolutions give the same number"
        if count.low == count.high
        else f"other starts, thresholds and resolutions give {count.low} to {count.high}"
    )
    curve = (
        '<div class="plot panel" id="count-plot" role="img" aria-label="Modularity, and how separate the two clusters '
        'of the last split are, for each number of clusters"></div>'
    )
    return (
        f"<h3>How certain is the number?</h3><p>{plural(count.n_clusters, 'cluster')} found; {firm}. A cluster is "
        "split if its two parts are separate, that is, if far fewer links of the neighbour graph join them than would "
        "join the two halves of a single cloud of points.</p>"
        f"{_steps(count.steps)}{curve if len(count.modularity) > 1 else ''}"
    )


def _steps(steps: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(step).replace(' -', ' −')}</li>" for step in steps)
    return f'<ol class="steps">{items}</ol>' if steps else ""


def _trials(each: Choice) -> str:
    kept = [j for j in range(len(each.headings)) if any(row[j] != "–" for row in each.trials)]
    kinds = {j: ' class="number"' if all(_is_number(row[j]) for row in each.trials) else "" for j in kept}
    heads = "".join(f'<th scope="col"{kind}>{escape(each.headings[j])}</th>' for j, kind in kinds.items())
    rows = "".join(
        f'<tr class="{"chosen" if place == each.chosen else ""}">'
        + "".join(f"<td{kind}>{escape(row[j])}</td>" for j, kind in kinds.items())
        + f"<td>{'✓ chosen' if place == each.chosen else ''}</td></tr>"
        for place, row in enumerate(each.trials)
    )
    return (
        '<h3>What was tried</h3><p class="hint">In order of simplicity. The simplest metric and head that no '
        "other clearly beats are chosen, without labels.</p>"
        '<div class="box panel" tabindex="0" role="region" aria-label="What was tried"><table class="trials">'
        f'<thead><tr>{heads}<th scope="col"><span class="sr">chosen</span></th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).replace("-", "", 1).isdigit() or cell == "–"
