//! Asks nodes over HTTP, one after the other until one answers.

use std::{path::PathBuf, time::Duration};

use serde::de::DeserializeOwned;

use crate::config::Timespan;

/// Exit code: done, healthy.
pub const EXIT_DONE: u8 = 0;
/// Exit code: an error that is none of the others.
pub const EXIT_ERROR: u8 = 1;
/// Exit code: wrong usage.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: refused, reasons printed.
pub const EXIT_REFUSED: u8 = 3;
/// Exit code: not finished within `--wait`; it goes on.
pub const EXIT_GOES_ON: u8 = 4;
/// Exit code: no node can be reached, or no quorum where one is needed.
pub const EXIT_UNREACHABLE: u8 = 5;
/// Exit code: not authorised.
pub const EXIT_UNAUTHORISED: u8 = 8;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Longest part of an answer that is shown when it is not understood.
const SHOWN_CHARS_MAX: usize = 200;

/// How a result is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// As the node answered.
    Json,
}

/// Flags of every command that asks a node.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientArgs {
    /// Address of a node; may be given several times, they are tried in order.
    #[arg(
        long = "server",
        value_name = "URL",
        env = "HOTSPARE_SERVER",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:7401"
    )]
    pub servers: Vec<String>,
    /// Longest wait for each node.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    pub timeout: Timespan,
    /// File with the token of who asks; its first line counts.
    #[arg(long, value_name = "FILE", env = "HOTSPARE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// How the result is printed.
    #[arg(short = 'o', long = "output", value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No node answered.
    #[error("no node answered:\n  {}\nname others with --server", .0.join("\n  "))]
    Unreachable(
        /// Each address with what happened.
        Vec<String>,
    ),
    /// A node answered with an error.
    #[error("{server}: {detail} (HTTP {status})")]
    Refused {
        /// The node.
        server: String,
        /// HTTP status.
        status: u16,
        /// What it said.
        detail: String,
        /// The whole answer.
        body: String,
    },
    /// The token cannot be read.
    #[error("--token-file {path}: {error}")]
    Token {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// The answer is none that this version understands.
    #[error("{server} answered what this version does not understand: {why}. Is it a hotspare node of this version?")]
    NotUnderstood {
        /// The node.
        server: String,
        /// What is wrong with it.
        why: String,
    },
}

impl ClientError {
    /// The exit code of a command that ends with this.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable(_) => EXIT_UNREACHABLE,
            Self::Token { .. } | Self::Refused { status: 400 | 404, .. } => EXIT_USAGE,
            Self::Refused { status: 401 | 403, .. } => EXIT_UNAUTHORISED,
            Self::Refused { status: 409, .. } => EXIT_REFUSED,
            Self::Refused { status: 503, body, .. } if kind(body) == "no_leader" => EXIT_UNREACHABLE,
            Self::Refused { .. } | Self::NotUnderstood { .. } => EXIT_ERROR,
        }
    }
}

/// An answer, and who gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The node's address.
    pub server: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body as a document.
    ///
    /// # Errors
    /// It is no such document.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_str(&self.body)
            .map_err(|error| ClientError::NotUnderstood { server: self.server.clone(), why: error.to_string() })
    }
}

/// Asks the nodes in order; blocks, so not to be called on an async thread.
#[derive(Debug)]
pub struct Client {
    agent: ureq::Agent,
    servers: Vec<String>,
    token_file: Option<PathBuf>,
}

/// What is asked.
#[derive(Clone, Copy)]
enum Ask<'a> {
    Get,
    Post { body: &'a str, request_id: &'a str },
}

impl Client {
    /// As the flags say.
    #[must_use]
    pub fn new(args: &ClientArgs) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(args.timeout.get().max(Duration::from_millis(1))))
            .http_status_as_error(false)
            .max_redirects(0)
            // Nodes are asked directly; the environment's proxy is for other things.
            .proxy(None)
            .user_agent(concat!("hotspare/", env!("CARGO_PKG_VERSION")));
        let servers = args.servers.iter().map(|server| server.trim().trim_end_matches('/').to_owned()).collect();
        Self { agent: config.build().new_agent(), servers, token_file: args.token_file.clone() }
    }

    /// GET of a path with its parameters.
    ///
    /// # Errors
    /// Nobody answered, or the answer is an error. An error other than "busy" is not asked again elsewhere.
    pub fn get(&self, path: &str) -> Result<Answer, ClientError> {
        self.ask(path, Ask::Get)
    }

    /// POST of a JSON body. The same request id is sent to each node, so that it is done once.
    ///
    /// # Errors
    /// As [`Client::get`]; also the token cannot be read.
    pub fn post(&self, path: &str, body: &str, request_id: &str) -> Result<Answer, ClientError> {
        self.ask(path, Ask::Post { body, request_id })
    }

    fn token(&self) -> Result<Option<String>, ClientError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let text = std::fs::read_to_string(path).map_err(|error| ClientError::Token { path: path.clone(), error })?;
        Ok(Some(text.lines().next().unwrap_or_default().trim().to_owned()))
    }

    fn ask(&self, path: &str, ask: Ask<'_>) -> Result<Answer, ClientError> {
        let token = self.token()?;
        let mut failures = Vec::new();
        let mut busy = None;
        for server in &self.servers {
            match self.ask_one(server, path, ask, token.as_deref()) {
                Ok(answer) => return Ok(answer),
                Err(Failure::Silent(why)) => failures.push(format!("{server}: {why}")),
                Err(Failure::Answer(status @ 500.., body)) => {
                    busy = Some(ClientError::Refused { server: server.clone(), status, detail: detail(&body), body });
                }
                Err(Failure::Answer(status, body)) => {
                    return Err(ClientError::Refused { server: server.clone(), status, detail: detail(&body), body });
                }
            }
        }
        Err(busy.unwrap_or(ClientError::Unreachable(failures)))
    }

    fn ask_one(&self, server: &str, path: &str, ask: Ask<'_>, token: Option<&str>) -> Result<Answer, Failure> {
        let base = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        if base.starts_with("https:") {
            return Err(Failure::Silent("this version speaks http only".to_owned()));
        }
        let silent = |error: ureq::Error| Failure::Silent(error.to_string());
        let url = format!("{base}{path}");
        let bearer = token.map(|token| format!("Bearer {token}"));
        let response = match ask {
            Ask::Get => match bearer {
                Some(bearer) => self.agent.get(url).header("authorization", bearer).call(),
                None => self.agent.get(url).call(),
            },
            Ask::Post { body, request_id } => {
                let post = self.agent.post(url).header("content-type", "application/json");
                let post = post.header("idempotency-key", request_id);
                match bearer {
                    Some(bearer) => post.header("authorization", bearer).send(body),
                    None => post.send(body),
                }
            }
        };
        let mut response = response.map_err(silent)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(silent)?;
        if (200..300).contains(&status) {
            return Ok(Answer { server: server.to_owned(), body });
        }
        Err(Failure::Answer(status, body))
    }
}

enum Failure {
    Silent(String),
    Answer(u16, String),
}

/// The type of a problem document; empty where it is none.
fn kind(body: &str) -> String {
    let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    problem["type"].as_str().unwrap_or_default().to_owned()
}

/// What a problem document says, or the beginning of what it is instead.
fn detail(body: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Problem {
        detail: String,
    }
    match serde_json::from_str::<Problem>(body) {
        Ok(problem) => problem.detail,
        Err(_) => body.chars().take(SHOWN_CHARS_MAX).collect::<String>().trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

    use super::*;

    fn client(servers: &[&str], timeout_ms: u64) -> Client {
        Client::new(&ClientArgs {
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
            timeout: Timespan::from_ms(timeout_ms),
            token_file: None,
            format: Format::Table,
        })
    }

    /// A server that gives one answer to each of its connections.
    fn answering(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 1024];
                let _length = stream.read(&mut request).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        address
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 16\r\nConnection: close\r\n\r\n{\"detail\":\"full\"}";
    const WRONG: &str = "HTTP/1.1 400 Bad\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad";

    /// An address where nobody listens.
    fn nobody() -> String {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
    }

    #[test]
    fn the_next_node_is_asked_when_one_is_dead_busy_or_silent() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = silent.local_addr().map(|address| (silent, address.to_string())).unwrap();
        for first in [nobody(), answering(BUSY), silent.1.clone(), "https://127.0.0.1:1".to_owned()] {
            let second = format!("http://{}/", answering(OK));
            let answer = client(&[&first, &second], 500).get("/v1/status").unwrap();
            assert_eq!(answer.body, "{}", "after {first}");
        }
    }

    #[test]
    fn exit_codes_tell_nobody_from_no() {
        let error = client(&[&nobody(), &nobody()], 500).get("/v1/status").unwrap_err();
        assert_eq!(error.exit_code(), EXIT_UNREACHABLE);
        assert_eq!(error.to_string().lines().count(), 4);
        let error = client(&[&answering(WRONG), &answering(OK)], 500).get("/v1/history?kind=x").unwrap_err();
        assert_eq!(error.exit_code(), EXIT_USAGE, "{error}");
        let error = client(&[&answering(BUSY), &nobody()], 500).get("/v1/status").unwrap_err();
        assert_eq!(error.exit_code(), EXIT_ERROR, "{error}");
    }
}
