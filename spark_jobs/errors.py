"""Reasons why a job cannot go on: one class, whose `problem` the service makes its own error.

The text reaches users, so it is a sentence that says what to do, and never holds a password.
"""

from __future__ import annotations

from model.jobs import Problem


class JobError(Exception):
    """The reason why a job ended. ``problem`` says who has to act, the text what to do."""

    def __init__(self, problem: Problem, sentence: str) -> None:
        super().__init__(sentence)
        self.problem = problem


class SparkGoneError(JobError):
    """Spark itself is away: its JVM, its master or its server. The session is unusable."""

    def __init__(self, sentence: str) -> None:
        super().__init__(Problem.outage, sentence)
