"""Reports of clusterings: one self-contained HTML file, built from a plain value."""

from adaam.cluster_report.data import (
    Borderline,
    CardEffect,
    Choice,
    ClusterCard,
    CountCurve,
    ReportColumn,
    ReportData,
    ReportLayer,
)
from adaam.cluster_report.from_model import report_data
from adaam.cluster_report.report import ClusterReport

__all__ = [
    "Borderline",
    "CardEffect",
    "Choice",
    "ClusterCard",
    "ClusterReport",
    "CountCurve",
    "ReportColumn",
    "ReportData",
    "ReportLayer",
    "report_data",
]
