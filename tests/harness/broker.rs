//! A real Kafka broker that belongs to a test.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rdkafka::producer::BaseProducer;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::records::Failures;
use super::{tail_of, wait_until};

/// Settings with which a broker that was killed is back soon. It must wait until the session of its former life is over,
/// which lasts 9 s by default.
const PROPERTIES: [(&str, &str); 2] = [("broker.session.timeout.ms", "2000"), ("broker.heartbeat.interval.ms", "200")];

/// Where a broker runs, if not on this machine's own loopback as the only one of its cluster.
#[derive(Clone, Debug)]
pub struct Site {
    /// What its program is run with, such as `nsenter` with arguments.
    pub prefix: Vec<String>,
    /// Arguments for `deploy/kafka/kafka`.
    pub arguments: Vec<String>,
    /// The addresses of all brokers of its cluster, separated by commas, for clients.
    pub bootstrap: Option<String>,
    /// Copies of each partition that tests create.
    pub replication: i32,
}

impl Default for Site {
    fn default() -> Self {
        Self { prefix: Vec::new(), arguments: Vec::new(), bootstrap: None, replication: 1 }
    }
}

/// One broker with a data folder and ports of its own. It ends when this is dropped, or when the test process ends.
pub struct Broker {
    data: TempDir,
    properties: Vec<(String, String)>,
    listeners: Vec<String>,
    pub(super) site: Site,
    /// What the script printed: `bootstrap`, `port`, and the address of each further listener by its name.
    state: BTreeMap<String, String>,
    running: Mutex<Option<Running>>,
    /// What [`Broker::produce`] writes with.
    pub(super) producer: OnceLock<BaseProducer<Failures>>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Broker").field("data", &self.data).field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Running {
    /// The script, which has become the broker (`exec`).
    child: Child,
    /// When this closes, the watcher kills the broker and removes the data folder.
    watch: ChildStdin,
}

impl Broker {
    /// Starts a broker with these properties over those of `deploy/kafka` and waits until it answers (1.5 s).
    pub fn start(properties: &[(&str, &str)]) -> Broker {
        Self::start_with_listeners(properties, &[])
    }

    /// Like [`Broker::start`], with further listeners, each `NAME:PROTOCOL` such as `LOGIN:SASL_PLAINTEXT`.
    pub fn start_with_listeners(properties: &[(&str, &str)], listeners: &[&str]) -> Broker {
        Self::start_at(Site::default(), properties, listeners)
    }

    /// Like [`Broker::start_with_listeners`], somewhere else. Waits until it answers, which may need the others of its cluster.
    pub fn start_at(site: Site, properties: &[(&str, &str)], listeners: &[&str]) -> Broker {
        let data = tempfile::Builder::new().prefix("hotspare-kafka-").tempdir().expect("a folder for Kafka's data");
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let properties: Vec<_> = PROPERTIES.iter().chain(properties).map(owned).collect();
        let listeners: Vec<String> = listeners.iter().map(|&listener| listener.to_owned()).collect();
        let (running, state) = launch(&site, data.path(), &properties, &listeners);
        let (running, producer) = (Mutex::new(Some(running)), OnceLock::new());
        Broker { data, properties, listeners, site, state, running, producer }
    }

    /// The broker that the tests of this binary share. Tests that stop or pause it start one of their own.
    pub fn shared() -> &'static Broker {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(|| Broker::start(&[]))
    }

    /// `127.0.0.1:<port>`, or the addresses of its whole cluster; the same over restarts.
    pub fn bootstrap(&self) -> &str {
        self.site.bootstrap.as_ref().unwrap_or(&self.state["bootstrap"])
    }

    /// The address of a listener given to [`Broker::start_with_listeners`], by its name.
    pub fn listener(&self, name: &str) -> &str {
        self.state.get(name).unwrap_or_else(|| panic!("the broker has no listener {name}: {:?}", self.state))
    }

    /// The folder with the broker's data, its `server.properties` and `broker.log`.
    pub fn data_dir(&self) -> &Path {
        self.data.path()
    }

    /// The process id; none while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.running().as_ref().map(|running| running.child.id())
    }

    /// Ends the broker in order (SIGTERM) and waits for it. The data stay.
    pub fn stop(&self) -> ExitStatus {
        self.end(Signal::TERM)
    }

    /// Kills the broker. The data stay.
    pub fn kill9(&self) -> ExitStatus {
        self.end(Signal::KILL)
    }

    /// Starts a stopped broker again, on the same ports and data (1.5 s; after [`Broker::kill9`] 2 s more).
    pub fn start_again(&self) {
        let mut running = self.running();
        assert!(running.is_none(), "the broker {} is running", self.bootstrap());
        let (again, state) = launch(&self.site, self.data.path(), &self.properties, &self.listeners);
        assert_eq!(state["bootstrap"], self.state["bootstrap"], "the broker's port was taken while it was stopped");
        *running = Some(again);
    }

    /// [`Broker::stop`] and [`Broker::start_again`].
    pub fn restart(&self) {
        self.stop();
        self.start_again();
    }

    /// Freezes the broker (SIGSTOP): its connections stay open, nothing answers.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Ends a [`Broker::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let running = self.running();
        let running = running.as_ref().expect("the broker is running");
        kill_process(Pid::from_child(&running.child), signal).expect("the broker takes the signal");
    }

    fn end(&self, signal: Signal) -> ExitStatus {
        let mut running = self.running().take().expect("the broker is running");
        // Without this its watcher would remove the data.
        running.watch.write_all(b"leave\n").expect("the broker's watcher listens");
        let pid = Pid::from_child(&running.child);
        kill_process(pid, signal).expect("the broker takes the signal");
        kill_process(pid, Signal::CONT).expect("the broker takes the signal");
        wait_until("the broker has ended", Duration::from_secs(20), || {
            running.child.try_wait().expect("a child can be waited for")
        })
    }

    /// A test that failed while it had the lock must not keep others from ending the broker.
    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "--- the end of the log of the broker {}\n{}\n---",
                self.bootstrap(),
                tail_of(&self.data.path().join("broker.log"), 30)
            );
        }
        if let Some(mut running) = self.running().take() {
            // Errors mean that it has ended by itself.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// Runs the script until it has printed where the broker is.
fn launch(
    site: &Site,
    data: &Path,
    properties: &[(String, String)],
    listeners: &[String],
) -> (Running, BTreeMap<String, String>) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy/kafka/kafka");
    let told = data.join("harness.log");
    let told_file = std::fs::File::create(&told).expect("a file for what the script says");
    let mut words = site.prefix.iter().map(std::ffi::OsString::from).chain([script.clone().into_os_string()]);
    let mut command = Command::new(words.next().expect("at least the script"));
    // For a machine that is busy with other things.
    command.env("HOTSPARE_KAFKA_START_TIMEOUT_S", "180");
    command.args(words).args(["run", "--until-eof", "--remove-data", "--data"]).arg(data).args(&site.arguments);
    for (name, value) in properties {
        command.arg("--property").arg(format!("{name}={value}"));
    }
    for listener in listeners {
        command.arg("--listener").arg(listener);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(told_file)
        .spawn()
        .unwrap_or_else(|error| panic!("{} cannot be run: {error}", script.display()));
    let watch = child.stdin.take().expect("stdin is a pipe");
    let mut printed = String::new();
    let read = child.stdout.take().expect("stdout is a pipe").read_to_string(&mut printed);
    let state: BTreeMap<String, String> = printed
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if !state.contains_key("bootstrap") {
        let _ = child.kill();
        let _ = child.wait();
        panic!("no broker was started ({read:?}); {} says:\n{}", script.display(), tail_of(&told, 40));
    }
    (Running { child, watch }, state)
}
