//! Ports for nodes: free, and not chosen by another test at the same time.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;

/// Where the reservations are. `deploy/kafka` has the range from 20000 to 31999 for brokers.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// A port that belongs to a test.
#[derive(Debug)]
pub struct Port {
    /// The number.
    pub number: u16,
    host: String,
    _lock: Option<File>,
}

impl Port {
    /// A port of a host that has only one user.
    pub fn at(host: &str, number: u16) -> Port {
        Port { number, host: host.to_owned(), _lock: None }
    }

    /// Reserves a free port of 127.0.0.1 for this process until dropped. It lies below the range from which systems take
    /// the ports of outgoing connections, so it stays free while a node is restarted.
    pub fn reserve() -> Port {
        let folder: PathBuf =
            std::env::temp_dir().join(format!("hotspare-ports-{}", rustix::process::getuid().as_raw()));
        std::fs::create_dir_all(&folder).expect("the folder of port reservations can be created");
        for _ in 0..1000 {
            let number = FIRST + rand::random_range(0..COUNT);
            let Ok(lock) = File::create(folder.join(number.to_string())) else {
                continue;
            };
            if lock.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Port { number, host: "127.0.0.1".to_owned(), _lock: Some(lock) };
            }
        }
        panic!("found no free port from {FIRST} to {}", FIRST + COUNT - 1);
    }

    /// `host:number`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.number)
    }
}
