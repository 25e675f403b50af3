//! Named points at which a test kills, freezes or disturbs the process. Armed only where `drill.enabled` allows it.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// The variable that arms them: `name=action[@n][;…]`; the action happens at the n-th time (default the first).
/// Actions: `kill` (SIGKILL to this process), `stop` (SIGSTOP), `error` (the point fails, where it can), `slow` (every time,
/// 300 ms).
pub const VARIABLE: &str = "HOTSPARE_FAILPOINTS";

/// A wish that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE}: \"{0}\" is not name=kill|stop|error[@n] or name=slow")]
pub struct BadFailpoint(String);

/// Arms what the text names.
///
/// # Errors
/// A part of the text is not understood; nothing after it is armed.
pub fn arm(text: &str) -> Result<(), BadFailpoint> {
    for part in text.split(';').filter(|part| !part.trim().is_empty()) {
        let bad = || BadFailpoint(part.to_owned());
        let (name, action) = part.trim().split_once('=').ok_or_else(bad)?;
        let (action, nth) = match action.split_once('@') {
            Some((action, nth)) => (action, nth.parse().map_err(|_| bad())?),
            None => (action, 1_u64),
        };
        let signal = match action {
            "kill" => Signal::KILL,
            "stop" => Signal::STOP,
            "slow" => {
                fail::cfg(name, "sleep(300)").map_err(|_| bad())?;
                continue;
            }
            "error" => {
                fail::cfg(name, &format!("{}*off->1*return", nth.saturating_sub(1))).map_err(|_| bad())?;
                continue;
            }
            _ => return Err(bad()),
        };
        let hits = AtomicU64::new(0);
        let act = move || {
            if hits.fetch_add(1, Ordering::Relaxed) + 1 == nth {
                // Nothing can be done where the process may not signal itself.
                let _ = kill_process(getpid(), signal);
            }
        };
        fail::cfg_callback(name, act).map_err(|_| bad())?;
    }
    Ok(())
}
