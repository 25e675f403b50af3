//! Connections with bounds: how many, how long a request may take to come in and be answered, how large it may be.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep},
};

use super::Rules;

/// A connection without a request is closed after so long.
const IDLE_TIME: Duration = Duration::from_secs(75);
/// Before accepting again after an error of the system, such as no free file descriptor.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Accepts connections, as many as there are places; the others wait in the system's queue.
pub(super) struct Bounded {
    listener: TcpListener,
    places: Arc<Semaphore>,
    bounds: Bounds,
}

#[derive(Clone, Copy)]
struct Bounds {
    /// From the first byte of a request to the first byte of its answer.
    busy_time: Duration,
    bytes_max: u64,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, rules: &Rules) -> Self {
        let bounds = Bounds {
            busy_time: rules.header_timeout.saturating_add(rules.request_timeout),
            bytes_max: rules.header_bytes_max.saturating_add(rules.body_bytes_max),
        };
        Self { listener, places: Arc::new(Semaphore::new(rules.connections_max)), bounds }
    }
}

impl axum::serve::Listener for Bounded {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            // The semaphore is never closed, but a connection without a place must not be accepted.
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                std::future::pending::<()>().await;
                continue;
            };
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    stream.set_nodelay(true).ok();
                    return (Connection::new(stream, place, self.bounds), address);
                }
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller(pub(super) IpAddr);

impl Connected<IncomingStream<'_, Bounded>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Bounded>) -> Self {
        Self(stream.remote_addr().ip())
    }
}

/// One connection. It fails when a request is too large or too slow.
pub(super) struct Connection {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
    bounds: Bounds,
    deadline: Pin<Box<Sleep>>,
    /// A request has begun and its answer has not.
    busy: bool,
    bytes: u64,
}

impl Connection {
    fn new(stream: TcpStream, place: OwnedSemaphorePermit, bounds: Bounds) -> Self {
        // The first request has to come at once.
        let deadline = Box::pin(tokio::time::sleep(bounds.busy_time));
        Self { stream, _place: place, bounds, deadline, busy: true, bytes: 0 }
    }

    fn received(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > 0 && !self.busy {
            self.busy = true;
            self.deadline.as_mut().reset(Instant::now() + self.bounds.busy_time);
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        if self.bytes > self.bounds.bytes_max {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too large"));
        }
        Ok(())
    }

    fn sent(&mut self) {
        self.busy = false;
        self.bytes = 0;
        self.deadline.as_mut().reset(Instant::now() + IDLE_TIME);
    }

    fn late<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.deadline.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(Ok(())) => {
                let bytes = buffer.filled().len().saturating_sub(before);
                Poll::Ready(self.received(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => self.late(cx),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Ready(result) => {
                self.sent();
                Poll::Ready(result)
            }
            Poll::Pending => self.late(cx),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write_vectored(cx, parts) {
            Poll::Ready(result) => {
                self.sent();
                Poll::Ready(result)
            }
            Poll::Pending => self.late(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
