//! Messages as frames: length, kind, number of the request, format, body.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// First byte of each body of our own messages.
const FORMAT: u8 = 1;

/// Bytes of kind and request number.
const HEAD_BYTES: usize = 9;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Introduces the dialling side.
    Hello = 1,
    /// The answer to it.
    Welcome = 2,
    /// One way: heartbeat, goodbye, orders.
    Notice = 3,
    Request = 4,
    Response = 5,
    RaftRequest = 6,
    RaftResponse = 7,
    /// The answer to each heartbeat, so that the dialling side sees a dead path.
    Pong = 8,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Welcome,
            3 => Self::Notice,
            4 => Self::Request,
            5 => Self::Response,
            6 => Self::RaftRequest,
            7 => Self::RaftResponse,
            8 => Self::Pong,
            _ => return None,
        })
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// Number of the request; 0 where none is answered.
    pub(crate) id: u64,
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// A frame with one of our own messages.
    pub(crate) fn of<T: Serialize>(kind: Kind, id: u64, message: &T) -> io::Result<Self> {
        let mut body = vec![FORMAT];
        serde_json::to_writer(&mut body, message).map_err(io::Error::other)?;
        Ok(Self { kind, id, body })
    }

    /// The message in it.
    pub(crate) fn message<T: for<'de> Deserialize<'de>>(&self) -> io::Result<T> {
        let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        match self.body.split_first() {
            Some((&FORMAT, json)) => serde_json::from_slice(json).map_err(|e| bad(e.to_string())),
            Some((other, _)) => Err(bad(format!("message of format {other}, this program reads {FORMAT}"))),
            None => Err(bad("empty message".into())),
        }
    }
}

/// Writes a frame; one longer than `bytes_max` is refused before anything is sent.
pub(crate) async fn write<W: AsyncWrite + Unpin>(to: &mut W, frame: &Frame, bytes_max: usize) -> io::Result<()> {
    let length = HEAD_BYTES + frame.body.len();
    if length > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes is longer than peers.frame_bytes_max, {bytes_max}"),
        ));
    }
    let mut bytes = Vec::with_capacity(4 + length);
    bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    bytes.push(frame.kind as u8);
    bytes.extend_from_slice(&frame.id.to_be_bytes());
    bytes.extend_from_slice(&frame.body);
    to.write_all(&bytes).await
}

/// Reads the next frame; a longer one than `bytes_max`, or an unknown kind, ends the connection.
pub(crate) async fn read<R: AsyncRead + Unpin>(from: &mut R, bytes_max: usize) -> io::Result<Frame> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let length = from.read_u32().await? as usize;
    if length < HEAD_BYTES || length > bytes_max {
        return Err(bad(format!("a message of {length} bytes; allowed are {HEAD_BYTES} to {bytes_max}")));
    }
    let kind = from.read_u8().await?;
    let kind = Kind::of(kind).ok_or_else(|| bad(format!("unknown message kind {kind}")))?;
    let id = from.read_u64().await?;
    let mut body = vec![0; length - HEAD_BYTES];
    from.read_exact(&mut body).await?;
    Ok(Frame { kind, id, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_come_back_whole() {
        let frame = Frame::of(Kind::Request, 7, &"question").unwrap();
        let mut bytes = Vec::new();
        write(&mut bytes, &frame, 100).await.unwrap();
        let back = read(&mut bytes.as_slice(), 100).await.unwrap();
        assert_eq!(back, frame);
        assert_eq!(back.message::<String>().unwrap(), "question");
    }

    #[tokio::test]
    async fn nothing_that_comes_in_makes_it_panic_or_allocate_without_bound() {
        for bytes in [
            &[][..],
            &[0, 0, 0, 1, 3],
            &[0xff; 32],
            &[0, 0, 0, 9, 99, 0, 0, 0, 0, 0, 0, 0, 0],
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(read(&mut &bytes[..], 1024).await.is_err());
        }
        let long = Frame { kind: Kind::Notice, id: 0, body: vec![0; 2000] };
        assert!(write(&mut Vec::new(), &long, 1024).await.is_err());
    }
}
