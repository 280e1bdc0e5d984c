"""A report of any kind: which one, ``report`` says."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from app.api.schemas.assertion_reports import AssertionFacts, AssertionReport
from app.api.schemas.correlations import CorrelationFacts, CorrelationReport
from app.api.schemas.learning import (
    ComparisonFacts,
    ComparisonReport,
    ExpectationsFacts,
    ExpectationsReport,
)
from app.api.schemas.reports import OrderFacts, OrderReport

_KIND = Field(discriminator="report")

AnyFacts: TypeAlias = Annotated[
    OrderFacts | ExpectationsFacts | ComparisonFacts | CorrelationFacts | AssertionFacts, _KIND
]
AnyReport: TypeAlias = Annotated[
    OrderReport | ExpectationsReport | ComparisonReport | CorrelationReport | AssertionReport, _KIND
]
