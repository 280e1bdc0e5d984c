"""Chains, archives and topologies on Spark; chains also under spark-submit, without the service."""
