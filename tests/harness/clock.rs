//! A wall clock of a node that a test may set, by libfaketime. Clocks that only count time are left alone.

use std::path::{Path, PathBuf};

use std::process::Command;

use super::node::Node;

/// Preloaded as well.
const WAITS: &str = include_str!("clock.c");

/// A node's wall clock.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// Gives a clock to a node that does not run yet; it begins right. An error says what is missing on this machine.
    pub fn of(node: &mut Node) -> Result<Clock, String> {
        let library = library()?;
        let waits = compiled(&node.config.with_file_name("clock.c"))?;
        let clock = Clock { file: node.config.with_file_name("clock") };
        clock.set(0);
        for (name, value) in [
            ("LD_PRELOAD", format!("{} {}", library.display(), waits.display())),
            ("FAKETIME_TIMESTAMP_FILE", clock.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            // Else it finds the first process's settings in a shared memory, which the shell before the node had made.
            ("FAKETIME_DISABLE_SHM", "1".to_owned()),
        ] {
            node.env.insert(name.to_owned(), value);
        }
        Ok(clock)
    }

    /// Sets it to so many hours after the right time.
    pub fn set(&self, hours: i64) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{hours:+}h\n")).expect("a file for the clock");
        std::fs::rename(new, &self.file).expect("renamed");
    }
}

/// Where Debian, Fedora and a build by hand put it.
fn library() -> Result<PathBuf, String> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime")))
        .collect();
    folders.extend(["/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"].map(PathBuf::from));
    let found = folders.iter().map(|folder| folder.join("libfaketimeMT.so.1")).find(|path| Path::exists(path));
    found.ok_or_else(|| "libfaketimeMT.so.1 is not here; on Debian or Ubuntu: apt-get install libfaketime".to_owned())
}

fn compiled(source: &Path) -> Result<PathBuf, String> {
    std::fs::write(source, WAITS).map_err(|error| error.to_string())?;
    let library = source.with_extension("so");
    let done = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, source]).output();
    match done {
        Ok(output) if output.status.success() => Ok(library),
        Ok(output) => {
            Err(format!("cc cannot compile tests/harness/clock.c: {}", String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) => Err(format!("cc: {error}; on Debian or Ubuntu: apt-get install gcc libc6-dev")),
    }
}
