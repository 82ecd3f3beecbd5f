"""The page: records and exhibits in, one self-contained HTML file out."""

from adaam.report.page.document import write_page

__all__ = ["write_page"]
