"""Chains, archives and reports on Spark; chains also under spark-submit, without the service.

A noun loads no Spark; what runs it on Spark is called after it, with ``_job``.
"""
