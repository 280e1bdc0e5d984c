"""The routes: one router a file, and beside them what several of them share.

Shared are `queries` (parameters of lists of events), `bodies` (bodies that are JSON), `submitting`
(a job done for a client who waits) and `downloads` (files as answers).
"""
