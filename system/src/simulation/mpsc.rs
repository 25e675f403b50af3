//! Channels between simulated threads, by the names of `std::sync::mpsc`.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};

use super::scheduler;

struct Queue<T> {
    items: VecDeque<T>,
    /// Items that may wait; none for any number.
    bound: Option<usize>,
    /// Somebody waits to receive: only then a channel without room takes an item.
    awaited: bool,
    senders: usize,
    has_receiver: bool,
}

type Shared<T> = Arc<Mutex<Queue<T>>>;

fn lock<T>(queue: &Shared<T>) -> MutexGuard<'_, Queue<T>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

fn make<T>(bound: Option<usize>) -> Shared<T> {
    Arc::new(Mutex::new(Queue { items: VecDeque::new(), bound, awaited: false, senders: 1, has_receiver: true }))
}

/// See [`std::sync::mpsc::channel`].
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let queue = make(None);
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

/// See [`std::sync::mpsc::sync_channel`].
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let queue = make(Some(bound));
    (SyncSender(Arc::clone(&queue)), Receiver(queue))
}

/// See [`std::sync::mpsc::Sender`].
pub struct Sender<T>(Shared<T>);

impl<T> Sender<T> {
    /// Puts an item in.
    ///
    /// # Errors
    /// The receiver is gone.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        let mut queue = lock(&self.0);
        if !queue.has_receiver {
            return Err(SendError(item));
        }
        queue.items.push_back(item);
        Ok(())
    }
}

/// See [`std::sync::mpsc::SyncSender`].
pub struct SyncSender<T>(Shared<T>);

impl<T> SyncSender<T> {
    /// Puts an item in as soon as there is room.
    ///
    /// # Errors
    /// The receiver is gone.
    ///
    /// # Panics
    /// When there is no room and who calls is no simulated thread.
    pub fn send(&self, item: T) -> Result<(), SendError<T>> {
        loop {
            let mut queue = lock(&self.0);
            if !queue.has_receiver {
                return Err(SendError(item));
            }
            let room = queue.bound.unwrap_or(0) + usize::from(queue.awaited);
            if queue.items.len() < room {
                queue.items.push_back(item);
                return Ok(());
            }
            drop(queue);
            scheduler::give_way();
        }
    }
}

/// See [`std::sync::mpsc::Receiver`].
pub struct Receiver<T>(Shared<T>);

impl<T> Receiver<T> {
    /// Takes an item if there is one.
    ///
    /// # Errors
    /// There is none, now or ever.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut queue = lock(&self.0);
        match queue.items.pop_front() {
            Some(item) => Ok(item),
            None if queue.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Waits for an item.
    ///
    /// # Errors
    /// There is none and there will be none.
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_timeout(Duration::MAX).map_err(|_| RecvError)
    }

    /// Waits for an item for at most so long.
    ///
    /// # Errors
    /// None came, or there will be none.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let until = scheduler::with(|shared| shared.now()).saturating_add(timeout);
        let result = loop {
            match self.try_recv() {
                Ok(item) => break Ok(item),
                Err(TryRecvError::Disconnected) => break Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if scheduler::with(|shared| shared.now()) >= until => {
                    break Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => {}
            }
            lock(&self.0).awaited = true;
            scheduler::give_way();
        };
        lock(&self.0).awaited = false;
        result
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SyncSender")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.0).senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        lock(&self.0).senders -= 1;
    }
}

impl<T> Drop for SyncSender<T> {
    fn drop(&mut self) {
        lock(&self.0).senders -= 1;
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.has_receiver = false;
        let left = std::mem::take(&mut queue.items);
        drop(queue);
        drop(left);
    }
}
