//! Ports for nodes: free, and not chosen by another test at the same time.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;

/// Where the reservations are. `deploy/kafka` has the range from 20000 to 31999 for brokers.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// A port of 127.0.0.1 that is reserved for this process until dropped. It lies below the range from which systems take
/// the ports of outgoing connections, so it stays free while a node is restarted.
#[derive(Debug)]
pub struct Port {
    /// The number.
    pub number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a free port.
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
                return Port { number, _lock: lock };
            }
        }
        panic!("found no free port from {FIRST} to {}", FIRST + COUNT - 1);
    }

    /// `127.0.0.1:<number>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}
