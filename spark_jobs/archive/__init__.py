"""Archives of a trace's oldest events, as Parquet by day: written by a job, read by others."""
