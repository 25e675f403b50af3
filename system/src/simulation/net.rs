//! Sockets of simulated processes, by the names of `tokio::net`.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    Number,
    network::{EndId, Ended},
    scheduler::with,
};

/// See [`tokio::net::TcpListener`]. Addresses are the name of a host, a colon and a port.
#[derive(Debug)]
pub struct TcpListener {
    address: String,
}

impl TcpListener {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address is in use.
    pub async fn bind(address: &str) -> io::Result<Self> {
        let address = address.to_owned();
        if with(|shared| shared.listen(&address)) { Ok(Self { address }) } else { Err(io::ErrorKind::AddrInUse.into()) }
    }

    /// The next connection, and nothing to tell of who dialled.
    ///
    /// # Errors
    /// Never.
    pub async fn accept(&self) -> io::Result<(TcpStream, ())> {
        let end = poll_fn(|context| {
            let next = with(|shared| shared.accept(&self.address, context.waker()));
            next.map_or(Poll::Pending, Poll::Ready)
        });
        Ok((TcpStream::new(end.await), ()))
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        with(|shared| shared.stop_listening(&self.address));
    }
}

struct Dial(Number);

impl Drop for Dial {
    fn drop(&mut self) {
        with(|shared| shared.hang_up(self.0));
    }
}

/// See [`tokio::net::TcpStream`].
#[derive(Debug)]
pub struct TcpStream {
    reading: OwnedReadHalf,
    writing: OwnedWriteHalf,
}

impl TcpStream {
    fn new(id: EndId) -> Self {
        let (reading, writing) = (Half(id), Half(id));
        Self { reading: OwnedReadHalf(Arc::new(reading)), writing: OwnedWriteHalf(Arc::new(writing)) }
    }

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there, or no host has this name. Where there is no way to the host, it waits for ever.
    pub async fn connect(address: &str) -> io::Result<Self> {
        let number = with(|shared| shared.dial(address)).ok_or(io::ErrorKind::NotFound)?;
        let dial = Dial(number);
        let outcome = poll_fn(|context| {
            with(|shared| shared.dialled(dial.0, context.waker())).map_or(Poll::Pending, Poll::Ready)
        });
        outcome.await.map(Self::new).map_err(|()| io::ErrorKind::ConnectionRefused.into())
    }

    /// Nothing waits to be sent here anyway.
    ///
    /// # Errors
    /// Never.
    pub fn set_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// The two directions.
    #[must_use]
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (self.reading, self.writing)
    }
}

/// A share of one end, which is closed with the last.
#[derive(Debug)]
struct Half(EndId);

impl Drop for Half {
    fn drop(&mut self) {
        with(|shared| shared.close_half(self.0));
    }
}

/// See [`tokio::net::tcp::OwnedReadHalf`].
#[derive(Debug)]
pub struct OwnedReadHalf(Arc<Half>);

/// See [`tokio::net::tcp::OwnedWriteHalf`].
#[derive(Debug)]
pub struct OwnedWriteHalf(Arc<Half>);

impl AsyncRead for OwnedReadHalf {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        with(|shared| {
            let Some(end) = shared.end(self.0.0) else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            if end.ended == Some(Ended::Reset) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if end.received.is_empty() && end.ended.is_none() {
                end.reader = Some(context.waker().clone());
                return Poll::Pending;
            }
            let (first, _) = end.received.as_slices();
            let taken = first.len().min(buffer.remaining());
            buffer.put_slice(first.get(..taken).unwrap_or_default());
            end.received.drain(..taken);
            Poll::Ready(Ok(()))
        })
    }
}

impl AsyncWrite for OwnedWriteHalf {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with(|shared| {
            if shared.end(self.0.0).is_none_or(|end| end.ended == Some(Ended::Reset)) {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            shared.write(self.0.0, bytes, context.waker()).map_or(Poll::Pending, |sent| Poll::Ready(Ok(sent)))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        with(|shared| shared.finish(self.0.0));
        Poll::Ready(Ok(()))
    }
}

/// By its name in `tokio::net::tcp`.
pub mod tcp {
    pub use super::{OwnedReadHalf, OwnedWriteHalf};
}
