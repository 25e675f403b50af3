//! The nodes: their files, their ports, their processes.

use std::{
    fs::{self, File},
    io,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use toml::Value;

use super::{DIE_WITH_PARENT, DemoError, Options, prometheus::Prometheus};

/// Below the ports from which systems take those of outgoing connections, so that a port stays free while its node is down.
const PORTS: std::ops::Range<u16> = 10_000..20_000;

/// One node.
pub(super) struct Node {
    pub(super) slot: String,
    /// Address of its HTTP server.
    pub(super) http: String,
    pub(super) config: PathBuf,
    log: PathBuf,
    child: Option<Child>,
}

/// All nodes, in a folder of their own. They end, and the folder goes, when this is dropped.
pub(super) struct Nodes {
    pub(super) all: Vec<Node>,
    prometheus: Option<Prometheus>,
    folder: Option<TempDir>,
}

impl Nodes {
    /// Writes the files; starts nothing.
    pub(super) fn prepare(options: &Options, window: &str) -> Result<Self, DemoError> {
        let folder = tempfile::Builder::new().prefix("hotspare-demo-").tempdir();
        let folder = folder.map_err(DemoError::io("make a temporary folder"))?;
        let count = options.nodes as usize;
        // Held until all are chosen, so that none is taken twice.
        let ports: Vec<(TcpListener, u16)> = (0..count * 2)
            .map(|_| free_port())
            .collect::<io::Result<_>>()
            .map_err(DemoError::io("find a free port"))?;
        let address = |number: usize| format!("127.0.0.1:{}", ports.get(number).map_or(0, |(_, port)| *port));
        let mut all = Vec::new();
        for number in 0..count {
            let slot = format!("hotspare-{number}");
            let base = folder.path().join(&slot);
            let peers: Vec<String> = (0..count).map(|other| address(2 * other)).collect();
            let http = address(2 * number + 1);
            let text = config(options, window, &base, (number, &slot), &peers, &http);
            let node = Node { config: base.join("hotspare.toml"), log: base.join("log"), slot, http, child: None };
            fs::create_dir(&base)
                .and_then(|()| fs::write(&node.config, text))
                .map_err(DemoError::io(format!("write {}", node.config.display())))?;
            all.push(node);
        }
        Ok(Self { all, prometheus: None, folder: Some(folder) })
    }

    /// Starts a Prometheus that scrapes them; gives its address.
    pub(super) fn watch(&mut self) -> Result<&str, DemoError> {
        let folder = self.folder.as_ref().map(|folder| folder.path().join("prometheus"));
        let folder = folder.ok_or_else(|| DemoError::Other("the folder was given away".to_owned()))?;
        let port = free_port().map(|(_, port)| port).map_err(DemoError::io("find a free port"))?;
        let targets: Vec<String> = self.all.iter().map(|node| node.http.clone()).collect();
        let prometheus = Prometheus::start(&folder, port, &targets)?;
        Ok(&self.prometheus.insert(prometheus).url)
    }

    /// Number of the node with this slot.
    pub(super) fn by_slot(&self, slot: &str) -> Option<usize> {
        self.all.iter().position(|node| node.slot == slot)
    }

    /// Asks all to end; what each gave as exit code, none where it had to be killed or was not running.
    pub(super) fn shut_down(&mut self, within: Duration) -> Vec<Option<i32>> {
        for node in &self.all {
            node.signal(Signal::TERM);
        }
        let begin = Instant::now();
        while begin.elapsed() < within && self.all.iter_mut().any(Node::is_running) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.all.iter_mut().map(Node::end).collect()
    }

    /// Leaves the folder where it is, and tells where.
    pub(super) fn keep(&mut self) -> Option<PathBuf> {
        self.folder.take().map(TempDir::keep)
    }

    /// The ends of all logs.
    pub(super) fn log_tails(&self, lines: usize) -> String {
        let tail = |node: &Node| {
            let text = fs::read(&node.log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let all: Vec<&str> = text.lines().collect();
            let tail = all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n");
            format!("--- end of the log of {}\n{tail}", node.slot)
        };
        self.all.iter().map(tail).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.all {
            node.signal(Signal::KILL);
            node.end();
        }
    }
}

impl Node {
    /// Starts the process. It dies with the thread that calls this, so that must be the one that lives longest.
    pub(super) fn start(&mut self) -> Result<(), DemoError> {
        let what = || DemoError::io(format!("start {}", self.slot));
        let program = std::env::current_exe().map_err(what())?;
        let log = File::options().create(true).append(true).open(&self.log).map_err(what())?;
        let mut command = Command::new(program);
        command
            .args(["node", "--config"])
            .arg(&self.config)
            .env(DIE_WITH_PARENT, "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(what())?)
            .stderr(log)
            // Ctrl-C is for the demonstration, which ends its nodes itself.
            .process_group(0);
        // Settings in this environment are for other nodes than these.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("HOTSPARE_") && name.contains("__")) {
                command.env_remove(name);
            }
        }
        self.child = Some(command.spawn().map_err(what())?);
        Ok(())
    }

    fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            // It may have ended by itself; it is not yet waited for, so its number is not another's.
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }

    /// SIGKILL; does not wait.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills it if it still runs, and gives its exit code.
    pub(super) fn end(&mut self) -> Option<i32> {
        let mut child = self.child.take()?;
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
        }
        child.wait().ok()?.code()
    }
}

fn free_port() -> io::Result<(TcpListener, u16)> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..1000 {
        let port = rand::random_range(PORTS);
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return Ok((listener, port)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn quoted(text: impl Into<String>) -> String {
    Value::String(text.into()).to_string()
}

fn config(
    options: &Options,
    window: &str,
    base: &Path,
    (number, slot): (usize, &str),
    peers: &[String],
    http: &str,
) -> String {
    // One voter is a trial without failover; an even number of voters would survive no more deaths than one less.
    let voters = if peers.len() >= 5 {
        5
    } else if peers.len() >= 3 {
        3
    } else {
        1
    };
    let list = |texts: Vec<String>| texts.into_iter().map(quoted).collect::<Vec<_>>().join(", ");
    let slots = list((0..voters).map(|number| format!("hotspare-{number}")).collect());
    let seeds = list(peers.iter().take(voters).cloned().collect());
    let listen = quoted(peers.get(number).cloned().unwrap_or_default());
    let own = format!(
        r#"[cluster]
name = {name}
expected_slots = [{slots}]
voters = {voters}
seeds = [{seeds}]

[node]
slot = {slot}
data_dir = {data}
# All end together, so nobody is left to hand a partition to.
shutdown_timeout = "2s"
shutdown_linger = "0s"

[peers]
listen = {listen}
advertise = {listen}

[http]
listen = {http}

[kafka.properties]
"bootstrap.servers" = {kafka}
"#,
        name = quoted(&options.name),
        slot = quoted(slot),
        data = quoted(base.join("data").display().to_string()),
        http = quoted(http),
        kafka = quoted(&options.kafka),
    );
    own + &common_config(options, window)
}

/// What is the same for all, besides the names.
fn common_config(options: &Options, window: &str) -> String {
    format!(
        r#"
[topics]
replication_factor = 1
min_insync_replicas = 1

[replication]
standbys = {standbys}

# Kills follow one another here as they never do in earnest; anti-flap would hold the third one back, on purpose.
[failover]
antiflap_window = "1s"

[input]
topic = {input}

[input.time]
unit = "s"

[[input.value]]
name = "temp"
pointer = "/data/temp"

[[input.value]]
name = "humidity"
pointer = "/data/humidity"

[window]
size = {window}

[output]
emit = "changes"
"#,
        standbys = options.standbys,
        input = quoted(options.input()),
        window = quoted(window),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicBool};

    use super::*;

    #[test]
    fn the_configuration_of_every_node_is_accepted() {
        for count in [1, 3, 5] {
            let options = Options {
                kafka: "127.0.0.1:9092".to_owned(),
                nodes: count,
                partitions: 4,
                standbys: 2,
                kill_every: Duration::from_secs(5),
                kills: 1,
                rate: 2000.0,
                seed: 1,
                prometheus: false,
                data: PathBuf::new(),
                keep: false,
                name: super::super::unique_name(),
                stop: Arc::new(AtomicBool::new(false)),
            };
            let nodes = Nodes::prepare(&options, "1m").unwrap();
            for node in &nodes.all {
                let config = crate::config::load(Some(&node.config), std::iter::empty(), &[]);
                let config = config.unwrap_or_else(|errors| panic!("{errors}"));
                assert_eq!(config.node.slot, node.slot);
                assert_eq!(
                    options.topics()[1..],
                    [config.topics.changelog(), config.topics.output(), config.topics.dead_letters()]
                );
            }
            assert_eq!(nodes.by_slot("hotspare-0"), Some(0));
        }
    }
}
