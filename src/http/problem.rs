//! Errors as `application/problem+json` (RFC 9457). Clients test `type`, one of a fixed list.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use hotspare_cluster::{PartitionPreflight, Preflight};
use serde::Serialize;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Problem {
    /// What kind of error, one of the names used in this room.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened, to what, and what to do.
    detail: String,
    /// Rules that do not hold, for health.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<super::health::Check>,
    /// Of a refused act: every candidate of every partition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<PartitionPreflight>,
}

impl Problem {
    /// A new problem.
    #[must_use]
    pub(super) fn new(kind: &'static str, status: StatusCode, detail: impl Into<String>) -> Self {
        Self { kind, status: status.as_u16(), detail: detail.into(), checks: Vec::new(), partitions: Vec::new() }
    }

    /// 400.
    #[must_use]
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new("bad_request", StatusCode::BAD_REQUEST, detail)
    }

    /// 404.
    #[must_use]
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new("not_found", StatusCode::NOT_FOUND, detail)
    }

    /// 503.
    #[must_use]
    pub(super) fn unavailable(kind: &'static str, detail: impl Into<String>) -> Self {
        Self::new(kind, StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// With the candidates.
    #[must_use]
    pub(super) fn with_preflight(mut self, preflight: Preflight) -> Self {
        self.partitions = preflight.partitions;
        self
    }

    /// With the rules that do not hold.
    #[must_use]
    pub(super) fn with_checks(mut self, checks: Vec<super::health::Check>) -> Self {
        self.checks = checks;
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A struct of strings and numbers always becomes JSON.
        let body = serde_json::to_string(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(self.kind, "overloaded" | "timeout" | "no_leader" | "too_many_failures") {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
