"""The page: records and exhibits in, one self-contained HTML file out."""

from adaam.report.reproduction.page import NAME, write_page

__all__ = ["NAME", "write_page"]
