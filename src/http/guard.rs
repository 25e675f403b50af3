//! What stands before every request: bounds, host names, and headers of every answer.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{Shared, auth::Role, connection::Caller, problem::Problem};
use crate::metrics::catalogue::{HTTP_REQUEST_SECONDS, HTTP_REQUESTS};

/// Paths that have places of their own and are always open.
const HEALTH: [&str; 5] = ["/livez", "/readyz", "/startupz", "/active", "/standby"];

/// Checks a request, runs it within its bounds and completes the answer.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let begin = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let mut response = match refusal(&request, &shared) {
        Some(problem) => problem.into_response(),
        None => run(&shared, request, next).await,
    };
    let (meters, code) = (shared.source.meters(), response.status().as_str().to_owned());
    meters.count(&HTTP_REQUESTS, &[&route, &code]);
    meters.time(&HTTP_REQUEST_SECONDS, &[&route, &code], begin.elapsed());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

async fn run(shared: &Shared, request: Request, next: Next) -> Response {
    let is_health = HEALTH.contains(&request.uri().path());
    let place = if is_health { None } else { Some(shared.requests.try_acquire()) };
    if let Some(Err(_)) = place {
        let max = shared.rules.requests_max;
        return Problem::unavailable("overloaded", format!("{max} requests are being answered already; try again"))
            .into_response();
    }
    match tokio::time::timeout(shared.rules.request_timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let limit = shared.rules.request_timeout.as_secs();
            Problem::unavailable("timeout", format!("no answer within {limit} s")).into_response()
        }
    }
}

fn refusal(request: &Request, shared: &Shared) -> Option<Problem> {
    let rules = &shared.rules;
    let line = request.uri().to_string().len();
    let header_bytes =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>();
    if u64::try_from(line + header_bytes).unwrap_or(u64::MAX) > rules.header_bytes_max {
        let detail = format!("the head of the request is over {} bytes", rules.header_bytes_max);
        return Some(Problem::new("header_too_large", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail));
    }
    let path = request.uri().path();
    if HEALTH.contains(&path) {
        return None;
    }
    if !rules.allowed_hosts.is_empty() {
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).map(without_port);
        if !host.is_some_and(|host| rules.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))) {
            let detail = "the host name of the request is not among http.allowed_hosts";
            return Some(Problem::new("host_not_allowed", StatusCode::MISDIRECTED_REQUEST, detail));
        }
    }
    let open = if path == "/metrics" { rules.metrics_open } else { rules.read_open };
    // What changes something is checked where it is done.
    if open || !(request.method().is_safe()) {
        return None;
    }
    let from = request.extensions().get::<ConnectInfo<Caller>>().map(|ConnectInfo(Caller(from))| *from);
    shared.auth.check(request.headers(), from, Role::Read).err()
}

/// `[::1]:7401` → `[::1]`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn a_host_is_compared_without_its_port() {
        for (host, name) in
            [("a:7401", "a"), ("a", "a"), ("[::1]:7401", "[::1]"), ("[::1]", "[::1]"), ("127.0.0.1:1", "127.0.0.1")]
        {
            assert_eq!(without_port(host), name);
        }
    }
}
