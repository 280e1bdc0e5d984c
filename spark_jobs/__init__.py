"""Chain queries and exports on Spark; each also runs under spark-submit."""
