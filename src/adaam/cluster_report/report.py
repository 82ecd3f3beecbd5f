"""A report of clusters: the page as a file, and a table for notebooks."""

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

from adaam.cluster_report.data import ClusterCard, ReportData
from adaam.cluster_report.markup import percent, plural
from adaam.cluster_report.page import headline, page
from adaam.files import atomic_file
from adaam.palette import cluster_color

MAX_LINES = 40  # clusters in the table for notebooks


@dataclass(frozen=True, slots=True, eq=False)
class ClusterReport:
    """A page about the clusters that a model found.

    In a notebook it shows a table of the clusters; `save` writes the whole page.

    Parameters
    ----------
    data : ReportData
        What the page shows.
    """

    data: ReportData

    def html(self) -> str:
        """Return the page as text: one self-contained HTML file that loads nothing."""
        return page(self.data)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file.

        Parameters
        ----------
        path : path-like
            Where to write; an existing file is kept until the new one is complete.

        Returns
        -------
        Path
            Where it was written.

        Raises
        ------
        ImportError
            If plotly is not installed.
        """
        content = self.html().encode()
        with atomic_file(path) as stream:
            stream.write(content)
        return Path(path)

    def __repr__(self) -> str:
        return f"ClusterReport({headline(self.data)})"

    def _repr_html_(self) -> str:
        lines = "".join(self._line(each) for each in self.data.cards[:MAX_LINES])
        more = self.data.n_clusters - MAX_LINES
        rest = f"<p>and {plural(more, 'more cluster')}</p>" if more > 0 else ""
        return (
            f"<p><strong>{headline(self.data)}</strong></p><table><thead><tr><th>cluster</th><th>rows</th><th>share</th>"
            f"<th>strength</th><th>what sets it apart</th></tr></thead><tbody>{lines}</tbody></table>{rest}"
            '<p>The whole page: <code>report.save("clusters.html")</code></p>'
        )

    def _line(self, each: ClusterCard) -> str:
        dot = f'<span style="color:{cluster_color(each.label)}">●</span>'
        return (
            f"<tr><td>{dot} {each.label}</td><td>{each.size:,}</td><td>{percent(each.size / self.data.n_rows)}</td>"
            f'<td>{each.strength:.2f}</td><td style="text-align:left">{escape(each.summary)}</td></tr>'
        )
