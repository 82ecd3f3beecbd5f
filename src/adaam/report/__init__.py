"""Reports: figures and pages built from stored results; nothing is fitted here."""
