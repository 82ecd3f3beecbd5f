"""Reports: pictures and pages made from results, never from fitting."""
