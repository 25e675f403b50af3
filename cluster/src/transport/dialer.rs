//! The dialling side: connects to one address for ever, holds the connection, tells what happens to it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::detector::Seen;
use crate::ids::Slot;

use super::frame::{self, Frame, Kind};
use super::hello::{Hello, Welcome};
use super::{Handler, Limits, Link, Links, OUT_MAX, net};

/// For connecting and handshake together, where no reset came before.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// Between attempts while a peer is away.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// Between attempts while a peer refuses us.
const REFUSED_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between attempts where the peer is connected already, by another address.
const DUPLICATE_RETRY_AFTER: Duration = Duration::from_secs(1);
/// Between attempts within the probe after a reset.
const PROBE_RETRY_AFTER: Duration = Duration::from_millis(1);

enum Attempt {
    Connected(Box<Hello>, BufReader<net::Reading>, net::Writing),
    /// Nobody listens.
    NobodyThere,
    /// We are refused, or it is not whom we seek.
    Refused,
    Myself,
    Failed,
}

/// Connects to `address` until the agent stops. Ends if this node itself is there.
pub(crate) async fn dial_forever<H: Handler>(address: String, handler: Arc<H>, links: Arc<Links>, limits: Limits) {
    // Whose connection was reset here and is not yet back: only then a refusal says something of it.
    let mut lost: Option<Slot> = None;
    let mut probe_until: Option<Instant> = None;
    loop {
        let probing = probe_until.is_some_and(|until| Instant::now() < until);
        let pause = match attempt(&address, handler.as_ref(), &limits).await {
            Attempt::Connected(theirs, ..) if links.holds(&theirs) => DUPLICATE_RETRY_AFTER,
            Attempt::Connected(theirs, reading, writing) => {
                let reset = hold(&theirs, reading, writing, &handler, &links, &limits).await;
                lost = reset.then(|| theirs.slot.clone());
                probe_until = reset.then(|| Instant::now() + limits.probe_timeout);
                continue;
            }
            Attempt::NobodyThere => {
                probe_until = None;
                if let Some(slot) = &lost {
                    handler.seen(slot, Seen::Refused).await;
                }
                RETRY_AFTER
            }
            Attempt::Myself => return,
            Attempt::Refused => REFUSED_RETRY_AFTER,
            Attempt::Failed if probing => PROBE_RETRY_AFTER,
            Attempt::Failed => RETRY_AFTER,
        };
        sleep(pause).await;
    }
}

async fn attempt<H: Handler>(address: &str, handler: &H, limits: &Limits) -> Attempt {
    let stream = match net::dial(address, CONNECT_TIMEOUT).await {
        Ok(stream) => stream,
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Attempt::NobodyThere,
        Err(_) => return Attempt::Failed,
    };
    let (reading, mut writing) = net::split(stream);
    let mut reading = BufReader::new(reading);
    let shake = async {
        let hello = Frame::of(Kind::Hello, 0, &handler.hello())?;
        frame::write(&mut writing, &hello, limits.frame_bytes_max).await?;
        frame::read(&mut reading, limits.frame_bytes_max).await?.message::<Welcome>()
    };
    let welcome = match timeout(CONNECT_TIMEOUT, shake).await {
        Ok(Ok(welcome)) => welcome,
        Ok(Err(_)) | Err(_) => return Attempt::Failed,
    };
    let refusal = match welcome {
        Welcome::Welcome { hello, .. } => match handler.check(&hello) {
            Ok(_) => return Attempt::Connected(Box::new(hello), reading, writing),
            Err(refusal) => refusal,
        },
        Welcome::Refused(refusal) => refusal,
    };
    if refusal.reason == "myself" {
        return Attempt::Myself;
    }
    handler.refused(&refusal);
    Attempt::Refused
}

/// Holds the connection until it breaks; tells whether the other side broke it.
async fn hold<H: Handler>(
    theirs: &Hello,
    mut reading: BufReader<net::Reading>,
    writing: net::Writing,
    handler: &Arc<H>,
    links: &Arc<Links>,
    limits: &Limits,
) -> bool {
    let (out, outgoing) = mpsc::channel(OUT_MAX);
    handler.spawn(write_all(outgoing, writing, limits.frame_bytes_max));
    let link = Arc::new(Link::new(theirs, out));
    links.add(link.clone());
    handler.seen(&theirs.slot, Seen::Connected { incarnation: link.incarnation }).await;
    let reset = loop {
        match timeout(limits.idle_max, frame::read(&mut reading, limits.frame_bytes_max)).await {
            Ok(Ok(frame)) => {
                if matches!(frame.kind, Kind::Response | Kind::RaftResponse) {
                    link.answered(frame);
                }
            }
            // Broken by what it says, not by its death.
            Ok(Err(e)) if e.kind() == io::ErrorKind::InvalidData => break false,
            Ok(Err(_)) => break true,
            Err(_) => break false,
        }
    };
    links.remove(&link);
    if reset {
        handler.seen(&theirs.slot, Seen::Reset { incarnation: link.incarnation }).await;
    }
    reset
}

/// Writes frames until the sender is gone or the connection breaks.
pub(super) async fn write_all(mut frames: mpsc::Receiver<Frame>, mut writing: net::Writing, bytes_max: usize) {
    while let Some(frame) = frames.recv().await {
        if frame::write(&mut writing, &frame, bytes_max).await.is_err() {
            break;
        }
    }
    let _ = writing.shutdown().await;
}
