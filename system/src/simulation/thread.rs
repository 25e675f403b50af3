//! Threads of simulated processes, by the names of `std::thread`.

use std::{
    any::Any,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Number, scheduler};

/// See [`std::thread::Builder`].
#[derive(Debug, Default)]
pub struct Builder {
    name: String,
}

impl Builder {
    /// A thread without a name.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Names it.
    #[must_use]
    pub fn name(self, name: String) -> Self {
        Self { name }
    }

    /// Starts it.
    ///
    /// # Errors
    /// Never.
    pub fn spawn<T: Send + 'static>(self, body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
        let result = Arc::new(Mutex::new(None));
        let told = Arc::clone(&result);
        let number = scheduler::spawn(self.name, move || {
            let value = body();
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
        Ok(JoinHandle { number, result })
    }
}

/// See [`std::thread::spawn`].
///
/// # Panics
/// Outside of a simulated process.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(body).expect("a simulated thread always starts")
}

/// See [`std::thread::sleep`].
pub fn sleep(time: Duration) {
    scheduler::pause(time);
}

/// See [`std::thread::JoinHandle`].
#[derive(Debug)]
pub struct JoinHandle<T> {
    number: Number,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> JoinHandle<T> {
    /// Waits for its end; runs it itself if who waits is no simulated thread.
    ///
    /// # Errors
    /// It panicked.
    pub fn join(self) -> Result<T, Box<dyn Any + Send>> {
        scheduler::finish(self.number);
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.ok_or_else(|| Box::new("panicked") as Box<dyn Any + Send>)
    }
}
