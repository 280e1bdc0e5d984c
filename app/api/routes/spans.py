"""OpenTelemetry's spans, as exporters and collectors send them (OTLP over HTTP)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from app.api.openapi import WITH_BODY, answers
from app.api.otlp import as_json, as_protobuf
from app.api.otlp.intake import JSON, PROTOBUF, Intake, is_protobuf
from app.api.problems import status_of
from app.api.services import Parts
from app.api.signin.auth import sign_in
from app.errors import ItcError, NotAuthorisedError, NotFoundError

router = APIRouter(tags=["spans"])

# OTLP's own messages (opentelemetry/proto/collector/trace/v1) are described where they come from.
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_SPANS = {
    "schema": {
        "type": "object",
        "properties": {"resourceSpans": {"type": "array", "items": {"type": "object"}}},
    }
}
_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {JSON: _SPANS, PROTOBUF: _BINARY}}
}
_RESPONSE: dict[str, Any] = {
    "description": "An ExportTraceServiceResponse: empty, or with what was refused.",
    "content": {JSON: {"schema": {"type": "object"}}, PROTOBUF: _BINARY},
}


@router.post(
    "/v1/traces",
    response_class=Response,
    responses={**answers(400, 401, 403, 404, 415, 429, 503), **WITH_BODY, 200: _RESPONSE},
    openapi_extra=_BODY,
)
async def take_spans(parts: Parts, request: Request) -> Response:
    """Take spans, which tell which message a consumer handled when it published another.

    Errors about spans in protobuf are answered in protobuf, as a `google.rpc.Status`.
    """
    user = await sign_in(request)
    if not user.may_write and user.name not in parts.settings.otlp_users:
        raise NotAuthorisedError("sending spans needs administrator, or a name in ITC_OTLP_USERS")
    if parts.spans is None:
        raise NotFoundError("spans are not taken here: ITC_OTLP is off")
    content_type = request.headers.get("content-type", "")
    try:
        return await _take(parts.spans, request, content_type)
    except (ItcError, HTTPException) as error:
        if not is_protobuf(content_type):
            raise
        status, reason, headers = status_of(request, error)
        return Response(as_protobuf.status(reason), status, headers, media_type=PROTOBUF)


async def _take(intake: Intake, request: Request, content_type: str) -> Response:
    body = await request.body()
    encoding = request.headers.get("content-encoding", "")
    reasons = await intake.take(body, content_type, encoding)
    refused = reasons.total()
    counts = ", ".join(f"{count} {reason.value}" for reason, count in sorted(reasons.items()))
    message = f"refused: {counts}" if refused else ""
    if is_protobuf(content_type):
        return Response(as_protobuf.answer(refused, message), media_type=PROTOBUF)
    return Response(as_json.answer(refused, message), media_type=JSON)
