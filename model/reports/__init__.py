"""Reports on a period, a module for each subject: what a job writes, and the service serves.

A report's class is that of its facts, which lists of reports show, with the report's lists.
"""
