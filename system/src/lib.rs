//! What the program takes from the operating system, where a simulation has to take its place: threads, channels between
//! them, work that blocks, sockets. All of it has the names and the ways of the standard library and of tokio, which it is
//! unless the feature `simulation` is on.
//!
//! Clocks and random numbers need no names here: the simulation brings its own `clock_gettime` and `getrandom`.

#[cfg(feature = "simulation")]
pub mod simulation;

#[cfg(not(feature = "simulation"))]
pub mod disk;

#[cfg(not(feature = "simulation"))]
pub use std::{sync::mpsc, thread};
#[cfg(not(feature = "simulation"))]
pub use tokio::{net, task::spawn_blocking};

#[cfg(feature = "simulation")]
pub use simulation::{disk, mpsc, net, spawn_blocking, thread};
