"""What the store takes and returns: values alone, without SQLAlchemy and without I/O."""
