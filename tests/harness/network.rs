//! A network of a test's own: places with an address each, joined by a switch, between which packets can be dropped, lost
//! and delayed. Made of Linux network namespaces, so it needs root, `ip`, `nsenter`, `nft` and `tc`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::disk::run;

/// Deletes all namespaces whose names begin so, when its stdin ends, that is, when the test has ended, however it did.
const KEEPER: &str = r#"trap '' INT TERM
echo ready
read -r _
ip netns list | while read -r name _; do case $name in "$1"*) ip netns delete "$name" ;; esac; done"#;

/// The network; everything of it is gone when this is dropped.
#[derive(Debug)]
pub struct Network {
    prefix: String,
    places: u8,
    has_netem: bool,
    keeper: Option<(Child, ChildStdin)>,
}

/// A place in the network.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its address.
    pub host: String,
    namespace: String,
    has_netem: bool,
}

impl Network {
    /// A switch without anything. An error says why this machine does not allow it.
    pub fn new() -> Result<Network, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        for tool in ["ip", "nsenter", "nft", "tc"] {
            if !std::env::split_paths(&path).any(|folder| folder.join(tool).exists()) {
                return Err(format!(
                    "{tool} is not here; on Debian or Ubuntu: apt-get install iproute2 util-linux nftables"
                ));
            }
        }
        let prefix = format!("hotspare-{}-", std::process::id());
        let mut keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "keeper", &prefix])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (watch, stdout) = (keeper.stdin.take().expect("a pipe"), keeper.stdout.take().expect("a pipe"));
        BufReader::new(stdout).read_line(&mut String::new()).map_err(|error| error.to_string())?;
        let mut network = Network { prefix, places: 0, has_netem: false, keeper: Some((keeper, watch)) };
        let switch = network.name("switch");
        ip(&["netns", "add", &switch])?;
        ip(&["-n", &switch, "link", "add", "switch", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "switch", "up"])?;
        let qdisc = ["-n", &switch, "qdisc", "add", "dev", "switch", "root", "netem", "delay", "1ms"];
        network.has_netem = run(Command::new("tc").args(qdisc)).is_ok();
        if network.has_netem {
            run(Command::new("tc").args(["-n", &switch, "qdisc", "delete", "dev", "switch", "root"]))?;
        }
        Ok(network)
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Adds a place; the name is short and its own.
    pub fn place(&mut self, name: &str) -> Result<Place, String> {
        self.places += 1;
        let (namespace, switch) = (self.name(name), self.name("switch"));
        let host = format!("10.77.0.{}", self.places);
        ip(&["netns", "add", &namespace])?;
        ip(&["-n", &switch, "link", "add", name, "type", "veth", "peer", "name", "net", "netns", &namespace])?;
        ip(&["-n", &switch, "link", "set", name, "master", "switch", "up"])?;
        ip(&["-n", &namespace, "address", "add", &format!("{host}/24"), "dev", "net"])?;
        ip(&["-n", &namespace, "link", "set", "net", "up"])?;
        ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
        let place = Place { host, namespace, has_netem: self.has_netem };
        place.nft("add table inet nemesis")?;
        for hook in ["input", "output"] {
            place.nft(&format!("add chain inet nemesis {hook} {{ type filter hook {hook} priority 0; }}"))?;
        }
        Ok(place)
    }

    /// How packets are delayed here.
    pub fn delay(&self) -> &'static str {
        if self.has_netem { "each by 20 to 60 ms" } else { "by a narrow line, for the kernel has no netem" }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some((mut keeper, watch)) = self.keeper.take() {
            drop(watch);
            let _ = keeper.wait();
        }
    }
}

impl Place {
    /// What a program is run with to be here.
    pub fn prefix(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net={}", self.path())]
    }

    fn path(&self) -> String {
        format!("/run/netns/{}", self.namespace)
    }

    /// Moves the calling thread, and all that it starts from now on, here.
    pub fn enter(&self) -> Result<(), String> {
        let namespace = File::open(self.path()).map_err(|error| error.to_string())?;
        move_into_link_name_space(rustix::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network))
            .map_err(|error| error.to_string())
    }

    /// From now on nothing from there arrives here.
    pub fn cut_from(&self, there: &Place) {
        self.nft(&format!("add rule inet nemesis input ip saddr {} drop", there.host)).expect("a rule");
    }

    /// From now on packets are slow, and so many in a hundred are lost, in both directions.
    pub fn slow(&self, lost: u32) {
        for hook in ["input", "output"] {
            let rule =
                format!("add rule inet nemesis {hook} meta oifname != \"lo\" numgen random mod 100 < {lost} drop");
            let rule = if hook == "input" { rule.replace("oifname", "iifname") } else { rule };
            self.nft(&rule).expect("a rule");
        }
        let mut tc = Command::new("tc");
        tc.args(["-n", &self.namespace, "qdisc", "add", "dev", "net", "root"]);
        if self.has_netem {
            tc.args(["netem", "delay", "40ms", "20ms"]);
        } else {
            tc.args(["tbf", "rate", "2mbit", "burst", "16kb", "latency", "100ms"]);
        }
        run(&mut tc).expect("packets can be delayed");
    }

    /// Ends all that was done here.
    pub fn heal(&self) {
        self.nft("flush table inet nemesis").expect("rules can be removed");
        // An error means that nothing is delayed.
        let _ = run(Command::new("tc").args(["-n", &self.namespace, "qdisc", "delete", "dev", "net", "root"]));
    }

    fn nft(&self, command: &str) -> Result<(), String> {
        let prefix = self.prefix();
        run(Command::new(&prefix[0]).args(&prefix[1..]).arg("nft").arg(command))
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    run(Command::new("ip").args(arguments)).map_err(|error| format!("{error} (ip {})", arguments.join(" ")))
}
