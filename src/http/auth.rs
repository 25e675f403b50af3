//! Who asks, by the token of the request, and whether that is enough.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, StatusCode, header};
use sha2::{Digest, Sha256};

use super::problem::Problem;

/// Shortest token.
const TOKEN_CHARS_MIN: usize = 32;
/// Addresses whose failures are remembered.
const ADDRESSES_MAX: usize = 4096;

/// What a token allows; each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    /// To look.
    Read,
    /// To switch over, drain and pause.
    Operate,
    /// To change who belongs to the cluster.
    Admin,
}

impl Role {
    fn of(name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self::Read),
            "operate" => Some(Self::Operate),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

/// The tokens of a file, and failures to show one.
#[derive(Debug)]
pub(super) struct Auth {
    tokens_file: PathBuf,
    failures_per_s_max: u32,
    failures: Mutex<BTreeMap<IpAddr, (Instant, u32)>>,
}

struct Token {
    name: String,
    role: Role,
    hash: [u8; 32],
}

impl Auth {
    pub(super) fn new(tokens_file: &Path, failures_per_s_max: u32) -> Self {
        Self { tokens_file: tokens_file.to_owned(), failures_per_s_max, failures: Mutex::default() }
    }

    /// The name of who asks, if the token is known and its role is enough.
    pub(super) fn check(&self, headers: &HeaderMap, from: Option<IpAddr>, wanted: Role) -> Result<String, Problem> {
        if self.tokens_file.as_os_str().is_empty() {
            let detail = "no token is configured, so nobody may do this; set auth.tokens_file to a file with lines \
                          \"name role token\"";
            return Err(Problem::new("auth_not_configured", StatusCode::FORBIDDEN, detail));
        }
        if let Some(from) = from
            && self.is_blocked(from)
        {
            let detail = format!("more than {} wrong tokens a second from {from}; wait", self.failures_per_s_max);
            return Err(Problem::new("too_many_failures", StatusCode::TOO_MANY_REQUESTS, detail));
        }
        let tokens = self.tokens()?;
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
        let Some(found) = given.and_then(|given| find(&tokens, given)) else {
            if let Some(from) = from.filter(|_| given.is_some()) {
                self.failed(from);
            }
            let detail = if given.is_some() {
                "the token is not known here"
            } else {
                "a token is needed: Authorization: Bearer TOKEN, or --token-file"
            };
            return Err(Problem::new("unauthorized", StatusCode::UNAUTHORIZED, detail));
        };
        if found.role < wanted {
            let detail =
                format!("token \"{}\" has the role {}, this needs {}", found.name, found.role.name(), wanted.name());
            return Err(Problem::new("forbidden", StatusCode::FORBIDDEN, detail));
        }
        Ok(found.name.clone())
    }

    /// Read at each use, so that a changed file counts at once.
    fn tokens(&self) -> Result<Vec<Token>, Problem> {
        let path = self.tokens_file.display();
        let wrong = |detail| Problem::new("auth_not_configured", StatusCode::FORBIDDEN, detail);
        let text = fs::read_to_string(&self.tokens_file)
            .map_err(|error| wrong(format!("auth.tokens_file {path} cannot be read: {error}")))?;
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|(number, line)| {
                let parts: Vec<&str> = line.split_whitespace().collect();
                let [name, role, token] = parts[..] else {
                    return Err(wrong(format!("line {number} of {path} is not \"name role token\"")));
                };
                let role = Role::of(role).ok_or_else(|| {
                    wrong(format!("line {number} of {path}: role \"{role}\" is not read, operate or admin"))
                })?;
                if token.chars().count() < TOKEN_CHARS_MIN {
                    let detail =
                        format!("line {number} of {path}: the token is shorter than {TOKEN_CHARS_MIN} characters");
                    return Err(wrong(detail));
                }
                Ok(Token { name: name.to_owned(), role, hash: Sha256::digest(token).into() })
            })
            .collect()
    }

    fn is_blocked(&self, from: IpAddr) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures
            .get(&from)
            .is_some_and(|(since, count)| since.elapsed() < Duration::from_secs(1) && *count >= self.failures_per_s_max)
    }

    fn failed(&self, from: IpAddr) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES_MAX {
            failures.retain(|_, (since, _)| since.elapsed() < Duration::from_secs(1));
        }
        let entry = failures.entry(from).or_insert((Instant::now(), 0));
        if entry.0.elapsed() >= Duration::from_secs(1) {
            *entry = (Instant::now(), 0);
        }
        entry.1 = entry.1.saturating_add(1);
    }
}

/// Compares with every token, whole and without stopping at a hit, so that the time tells nothing.
fn find<'a>(tokens: &'a [Token], given: &str) -> Option<&'a Token> {
    let hash: [u8; 32] = Sha256::digest(given).into();
    let mut found = None;
    for token in tokens {
        let difference = token.hash.iter().zip(&hash).fold(0, |all, (a, b)| all | (a ^ b));
        if std::hint::black_box(difference) == 0 {
            found = Some(token);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::Value;

    use super::*;

    const ALICE: &str = "alice-0123456789-0123456789-0123456789";

    fn headers(token: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())])
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    fn kind(result: Result<String, Problem>) -> Value {
        serde_json::to_value(result.unwrap_err()).unwrap()["type"].clone()
    }

    #[test]
    fn a_token_names_its_owner_and_its_role_must_be_enough() {
        let file = file(&format!("# who may what\nalice operate {ALICE}\nbob read bob-{ALICE}\n"));
        let auth = Auth::new(file.path(), 10);
        assert_eq!(auth.check(&headers(ALICE), None, Role::Operate).unwrap(), "alice");
        assert_eq!(kind(auth.check(&headers(ALICE), None, Role::Admin)), "forbidden");
        assert_eq!(kind(auth.check(&headers(&format!("bob-{ALICE}")), None, Role::Operate)), "forbidden");
        assert_eq!(kind(auth.check(&headers(&ALICE[1..]), None, Role::Read)), "unauthorized");
        assert_eq!(kind(auth.check(&HeaderMap::new(), None, Role::Read)), "unauthorized");
        std::fs::write(file.path(), format!("carol admin {ALICE}")).unwrap();
        assert_eq!(auth.check(&headers(ALICE), None, Role::Admin).unwrap(), "carol", "the file is read again");
    }

    #[test]
    fn without_tokens_or_with_a_broken_file_nobody_may() {
        assert_eq!(kind(Auth::new(Path::new(""), 10).check(&headers(ALICE), None, Role::Read)), "auth_not_configured");
        for text in ["alice operate short", "alice boss 0123456789-0123456789-0123456789", "alice operate"] {
            let file = file(text);
            assert_eq!(
                kind(Auth::new(file.path(), 10).check(&headers(ALICE), None, Role::Read)),
                "auth_not_configured"
            );
        }
    }

    #[test]
    fn an_address_with_too_many_wrong_tokens_has_to_wait() {
        let file = file(&format!("alice operate {ALICE}"));
        let auth = Auth::new(file.path(), 2);
        let from = Some(IpAddr::from([10, 0, 0, 1]));
        for _ in 0..2 {
            assert_eq!(kind(auth.check(&headers("wrong"), from, Role::Read)), "unauthorized");
        }
        assert_eq!(kind(auth.check(&headers(ALICE), from, Role::Read)), "too_many_failures");
        let other = Some(IpAddr::from([10, 0, 0, 2]));
        assert_eq!(auth.check(&headers(ALICE), other, Role::Read).unwrap(), "alice");
    }
}
