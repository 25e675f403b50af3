//! One `hotspare node` process.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::network::Place;
use super::{tail_of, wait_until_or_tell};

/// Becomes the program after starting a watcher that is no child of it, and kills it when stdin ends without a word.
const GUARD: &str = r#"exec 3<&0
( (read -r word <&3; [ "$word" = leave ] || kill -KILL $$) >/dev/null 2>&1 & )
exec "$@" </dev/null 3<&-"#;

/// The longest time for one HTTP answer.
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);

/// An answer of a node's HTTP server.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl HttpAnswer {
    /// The body as JSON; `null` if it is something else.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// A node: its files and, while it runs, its process, which ends with the test.
#[derive(Debug)]
pub struct Node {
    /// The slot's name.
    pub slot: String,
    /// The configuration file.
    pub config: PathBuf,
    /// All output of all its lives.
    pub log: PathBuf,
    /// `host:port` of its HTTP server.
    pub http: String,
    /// Environment of the next start, on top of the test's own; for failpoints.
    pub env: BTreeMap<String, String>,
    program: Vec<String>,
    starts: u32,
    running: Option<(Child, ChildStdin)>,
}

impl Node {
    /// A node that does not run yet.
    pub fn new(slot: &str, config: &Path, log: &Path, http: &str) -> Node {
        let program = vec![
            std::env::var("HOTSPARE_TEST_NODE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_hotspare").to_owned()),
            "node".to_owned(),
            "--config".to_owned(),
            config.display().to_string(),
        ];
        Self::of_program(slot, config, log, http, program)
    }

    /// The same for another program and its arguments.
    pub fn of_program(slot: &str, config: &Path, log: &Path, http: &str, program: Vec<String>) -> Node {
        Node {
            slot: slot.to_owned(),
            config: config.to_owned(),
            log: log.to_owned(),
            http: http.to_owned(),
            env: BTreeMap::new(),
            program,
            starts: 0,
            running: None,
        }
    }

    /// From the next start on it runs at another place of a network.
    pub fn move_to(&mut self, place: &Place) {
        self.program.splice(0..0, place.prefix());
    }

    /// Starts the process; does not wait for anything.
    pub fn start(&mut self) {
        assert!(!self.is_running(), "{} is running already", self.slot);
        self.release();
        self.starts += 1;
        let mut log = std::fs::File::options().create(true).append(true).open(&self.log).expect("a log file");
        writeln!(log, "--- start {} of {} {:?}", self.starts, self.slot, self.env).expect("a log line");
        let mut child = Command::new("/bin/sh")
            .args(["-c", GUARD, "guard"])
            .args(&self.program)
            .envs(&self.env)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("a shell can be run");
        let watch = child.stdin.take().expect("stdin is a pipe");
        self.running = Some((child, watch));
    }

    /// Starts the process with these variables (such as `FAILPOINTS`) in its environment, this time only.
    pub fn start_with_env(&mut self, env: &[(&str, &str)]) {
        let before = self.env.clone();
        self.env.extend(env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
        self.start();
        self.env = before;
    }

    /// Is the process there? (A stopped one is.)
    pub fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }

    /// Is the process frozen? (It may have done that itself, at a failpoint.)
    pub fn is_stopped(&self) -> bool {
        let stat = self.pid().and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        stat.is_some_and(|stat| stat.contains(") T "))
    }

    /// The process id; none if it was never started, or its end was seen.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|(child, _)| child.id())
    }

    /// SIGKILL; returns when the process is gone.
    pub fn kill9(&mut self) {
        self.signal(Signal::KILL);
        self.wait_exit(Duration::from_secs(10));
    }

    /// Freezes the process.
    pub fn sigstop(&mut self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn sigcont(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end; see [`Node::wait_exit`].
    pub fn sigterm(&mut self) {
        self.signal(Signal::TERM);
    }

    /// SIGHUP: read the configuration again.
    pub fn sighup(&mut self) {
        self.signal(Signal::HUP);
    }

    fn signal(&mut self, signal: Signal) {
        assert!(self.is_running(), "{} is not running; its log ends:\n{}", self.slot, self.log_tail(20));
        if let Some((child, _)) = &self.running {
            kill_process(Pid::from_child(child), signal).expect("the node takes the signal");
        }
    }

    /// Waits until the process has ended.
    pub fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        let log = self.log.clone();
        let what = format!("{} has ended", self.slot);
        let (child, _) = self.running.as_mut().unwrap_or_else(|| panic!("{} was not started", self.slot));
        let status = wait_until_or_tell(
            &what,
            within,
            || child.try_wait().expect("a child can be waited for"),
            || tail_of(&log, 30),
        );
        self.release();
        status
    }

    /// Waits until the process has ended, with this exit code.
    pub fn wait_exit_code(&mut self, code: i32, within: Duration) {
        let status = self.wait_exit(within);
        assert_eq!(
            status.code(),
            Some(code),
            "{} ended with {status}; its log ends:\n{}",
            self.slot,
            self.log_tail(30)
        );
    }

    /// The process is gone: its watcher must not kill whoever has its number next.
    fn release(&mut self) {
        if let Some((_, mut watch)) = self.running.take() {
            let _ = watch.write_all(b"leave\n");
        }
    }

    /// GET; an error if no whole answer came.
    pub fn http_get(&self, path: &str) -> Result<HttpAnswer, String> {
        let answer = agent().get(format!("http://{}{path}", self.http)).call();
        whole(answer)
    }

    /// POST of a JSON document.
    pub fn http_post(&self, path: &str, body: &serde_json::Value) -> Result<HttpAnswer, String> {
        let request = agent().post(format!("http://{}{path}", self.http)).header("content-type", "application/json");
        whole(request.send(body.to_string()))
    }

    /// Does `/readyz` say so?
    pub fn is_ready(&self) -> bool {
        self.http_get("/readyz").is_ok_and(|answer| answer.status == 200)
    }

    /// Is this node active for the partition, as it says itself?
    pub fn is_active(&self, partition: u32) -> bool {
        self.http_get(&format!("/active?partition={partition}")).is_ok_and(|answer| answer.status == 200)
    }

    /// `/v1/status`, if it answers.
    pub fn status(&self) -> Option<serde_json::Value> {
        self.http_get("/v1/status").ok().filter(|answer| answer.status == 200).map(|answer| answer.json())
    }

    /// The log of all its lives.
    pub fn log_text(&self) -> String {
        tail_of(&self.log, usize::MAX)
    }

    /// The end of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        tail_of(&self.log, lines)
    }

    /// Process, readiness and status, for the text of a failure.
    pub fn describe(&mut self) -> String {
        let process = match (self.is_running(), self.pid()) {
            (true, Some(pid)) => format!("process {pid}"),
            _ => return format!("{}: not running", self.slot),
        };
        let ready = self
            .http_get("/readyz?verbose")
            .map_or_else(|error| error, |answer| format!("{} {}", answer.status, answer.body.trim()));
        let status = self.http_get("/v1/status").map_or_else(|error| error, |answer| answer.body);
        format!("{}: {process}\n  readyz: {ready}\n  status: {status}", self.slot)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some((child, _)) = self.running.as_mut() {
            // Errors mean that it has ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.release();
    }
}

/// A client without kept connections: they would break when a node is killed.
fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(HTTP_TIMEOUT))
        .http_status_as_error(false)
        .max_idle_connections(0);
    config.build().into()
}

fn whole(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<HttpAnswer, String> {
    let mut answer = answer.map_err(|error| error.to_string())?;
    let body = answer.body_mut().read_to_string().map_err(|error| error.to_string())?;
    Ok(HttpAnswer { status: answer.status().as_u16(), body })
}
