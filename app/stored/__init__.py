"""Values that the store takes and returns: without SQLAlchemy and without I/O."""
