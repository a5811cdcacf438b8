"""Refusals as problem details (RFC 9457), with the place of the mistake."""

from http import HTTPStatus

from starlette.responses import Response

from ingestor.http_server.bounded import RequestRefused, json_response

_TYPE = "application/problem+json"


class RequestProblem(RequestRefused):
    """``where``: the key of the body, or the part of the address, that must be changed.

    ``error`` repeats ``detail``, for all other refusals have it.
    """

    where: str | None = None

    @classmethod
    def at(cls, where: str | None, status: int, message: str) -> "RequestProblem":
        problem = cls(status, message, {"Retry-After": "1"} if status in (429, 503) else {})
        problem.where = where
        return problem

    @classmethod
    def of(cls, refused: RequestRefused) -> "RequestProblem":
        """The same refusal in this form."""
        return refused if isinstance(refused, cls) else cls(refused.status, str(refused), refused.headers)

    def response(self) -> Response:
        body = {"title": HTTPStatus(self.status).phrase, "status": self.status, "detail": str(self)}
        where = {} if self.where is None else {"where": self.where}
        answer = json_response(self.status, {**body, **where, "error": str(self)}, self.headers)
        answer.headers["Content-Type"] = _TYPE
        return answer
