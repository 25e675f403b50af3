//! A deterministic simulation of hosts: one operating-system thread runs everything, by a virtual clock and in an order that is
//! drawn from a seed.
//!
//! A host runs one process: an async runtime of its own, whose time is stepped, and threads, which are coroutines that give
//! control back wherever they sleep, wait for a channel or wait for a request. Nothing runs at the same time as anything
//! else, so the same seed gives the same course, whose [`Simulation::trace`] is a hash of all steps. A process that crashes is
//! forgotten in the middle of what it does, without unwinding, as SIGKILL does it; a frozen one is not run for a while.
//!
//! One operating-system process runs one simulation, for tokio and the standard library number things over a whole process.

mod interpose;
mod network;
mod scheduler;

pub mod disk;
pub mod faults;
pub mod mpsc;
pub mod net;
pub mod seeds;
pub mod thread;

use std::{fmt, io};

pub use network::Cut;
pub use scheduler::{Crash, HostId, Simulation};

/// An id of a simulated thread, process or connection: they are numbered as they are made.
type Number = u64;

/// Runs at once what blocks only on the disk.
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> std::future::Ready<Result<T, Never>> {
    std::future::ready(Ok(work()))
}

/// The error of work that was run at once: there is none.
#[derive(Debug, Clone, Copy)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Never {}

impl From<Never> for io::Error {
    fn from(never: Never) -> Self {
        match never {}
    }
}
