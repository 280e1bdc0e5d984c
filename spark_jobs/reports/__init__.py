"""Reports on a period, as JSON files: each kind is a function from a period to its report."""
