"""What somebody wants to call a participant."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.stored.reading import LONGEST_ALIAS, check_alias


class AliasRequest(BaseModel):
    """A name for a participant."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"alias": "Orders"}]})

    alias: Annotated[str, AfterValidator(check_alias)] = Field(
        description=f"At most {LONGEST_ALIAS} characters, none of them a control character."
    )
