"""Chain jobs as the service sees them: states, queue, the Spark process."""
