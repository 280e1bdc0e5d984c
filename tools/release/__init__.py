"""Everything that is published of a commit: the same bytes each time, and nothing is uploaded."""
