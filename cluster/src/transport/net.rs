//! The only lines that touch sockets; hotspare-system replaces them in a simulation.

use std::io;
use std::time::Duration;

use tokio::time::timeout;

/// A connection.
pub(crate) type Stream = hotspare_system::net::TcpStream;
/// Its reading half.
pub(crate) type Reading = hotspare_system::net::tcp::OwnedReadHalf;
/// Its writing half.
pub(crate) type Writing = hotspare_system::net::tcp::OwnedWriteHalf;
/// Where connections come in.
pub(crate) type Listener = hotspare_system::net::TcpListener;

/// Listens at `host:port`.
pub(crate) async fn listen(address: &str) -> io::Result<Listener> {
    Listener::bind(address).await
}

/// Takes the next connection in, ready for small messages.
pub(crate) async fn accept(listener: &Listener) -> io::Result<Stream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects to `host:port`.
pub(crate) async fn dial(address: &str, within: Duration) -> io::Result<Stream> {
    let stream = timeout(within, Stream::connect(address)).await.map_err(|_| io::ErrorKind::TimedOut)??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The two halves of a connection.
pub(crate) fn split(stream: Stream) -> (Reading, Writing) {
    stream.into_split()
}
