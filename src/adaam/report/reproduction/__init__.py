"""The page: records and exhibits in, one self-contained HTML file out."""

from adaam.report.reproduction.page import write_page

__all__ = ["write_page"]
