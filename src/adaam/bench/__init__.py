"""The benchmark: methods, data sets, and the runs that bring them together."""
