//! A Prometheus beside the demonstration, with the rules that are shipped: what dashboards and alerts say while nodes die.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::DemoError;

/// The rules as they are shipped.
const RULES: &str = include_str!("../../deploy/prometheus/hotspare.yml");
/// Becomes the program after starting a watcher that kills it when the pipe to us breaks, however we end.
const GUARD: &str = r#"exec 3<&0
( (read -r _ <&3; kill -KILL $$) >/dev/null 2>&1 & )
exec "$@" </dev/null 3<&-"#;

/// A running Prometheus; it ends when this is dropped.
pub(super) struct Prometheus {
    child: Child,
    /// Where it answers.
    pub(super) url: String,
}

impl Prometheus {
    /// Starts it in a folder of its own; `targets` are the nodes' HTTP addresses.
    pub(super) fn start(folder: &Path, port: u16, targets: &[String]) -> Result<Self, DemoError> {
        fs::create_dir(folder)
            .and_then(|()| fs::write(folder.join("hotspare.yml"), RULES))
            .and_then(|()| fs::write(folder.join("prometheus.yml"), config(targets)))
            .map_err(DemoError::io(format!("write {}", folder.display())))?;
        let address = format!("127.0.0.1:{port}");
        let what = || DemoError::io("start prometheus; install it, or leave --prometheus out");
        let log = File::create(folder.join("log")).map_err(what())?;
        let child = Command::new("/bin/sh")
            .args(["-c", GUARD, "guard", "prometheus"])
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().map_err(what())?)
            .stderr(log)
            .spawn()
            .map_err(what())?;
        Ok(Self { child, url: format!("http://{address}") })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Errors mean that it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(targets: &[String]) -> String {
    let targets: Vec<String> = targets.iter().map(|target| format!("{target:?}")).collect();
    format!(
        "global: {{scrape_interval: 2s, evaluation_interval: 2s}}\nrule_files: [hotspare.yml]\nscrape_configs:\n\
         - job_name: hotspare\n  static_configs: [{{targets: [{}]}}]\n",
        targets.join(", ")
    )
}
