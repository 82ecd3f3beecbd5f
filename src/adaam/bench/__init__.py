"""The benchmark: methods, data sets, plans, and the runs that execute them."""
