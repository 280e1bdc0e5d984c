"""What the store takes and gives: values alone, without SQLAlchemy and without I/O."""
