"""Jobs as the service sees them: states, queue, the Spark process, the files they leave."""
