//! The listening side: checks who dials, takes in notices, answers requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::BufReader;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use super::dialer::write_all;
use super::frame::{self, Frame, Kind};
use super::hello::{Hello, Refusal, Welcome};
use super::message::{Notice, Request};
use super::{Handler, Limits, OUT_MAX, net};

/// For the handshake of a connection.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections held at a time; more wait until one is closed.
const CONNECTIONS_MAX: usize = 256;
/// Longest handshake message.
const HELLO_BYTES_MAX: usize = 64 * 1024;
/// Pause after a failed accept (too many open files).
const ACCEPT_RETRY_AFTER: Duration = Duration::from_millis(20);

/// Takes connections in until the agent stops.
pub(crate) async fn serve_forever<H: Handler>(listener: net::Listener, handler: Arc<H>, limits: Limits) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else {
            return;
        };
        match net::accept(&listener).await {
            Ok(stream) => {
                let (handler, limits) = (handler.clone(), limits.clone());
                let spawner = handler.clone();
                spawner.spawn(async move {
                    let _place = place;
                    if let Err(e) = connection(stream, handler, &limits).await {
                        tracing::debug!(error = %e, "peer_connection_ended");
                    }
                });
            }
            Err(e) => {
                tracing::warn!(error = %e, "peer_accept_failed");
                sleep(ACCEPT_RETRY_AFTER).await;
            }
        }
    }
}

async fn connection<H: Handler>(stream: net::Stream, handler: Arc<H>, limits: &Limits) -> io::Result<()> {
    let (reading, mut writing) = net::split(stream);
    let mut reading = BufReader::new(reading);
    let first = timeout(HELLO_TIMEOUT, frame::read(&mut reading, HELLO_BYTES_MAX)).await;
    let first = first.map_err(|_| io::ErrorKind::TimedOut)??;
    let theirs: Hello = match (first.kind, first.message()) {
        (Kind::Hello, Ok(hello)) => hello,
        _ => {
            let reason = "magic".to_owned();
            handler.refused(&Refusal { reason, detail: "something that is no hotspare peer connected".into() });
            return Ok(());
        }
    };
    let welcome = match handler.check(&theirs) {
        Ok(protocol) => Welcome::Welcome { protocol, hello: handler.hello() },
        Err(refusal) => Welcome::Refused(refusal),
    };
    frame::write(&mut writing, &Frame::of(Kind::Welcome, 0, &welcome)?, limits.frame_bytes_max).await?;
    if let Welcome::Refused(refusal) = welcome {
        if refusal.reason != "myself" {
            handler.refused(&refusal);
        }
        return Ok(());
    }
    let (out, outgoing) = mpsc::channel(OUT_MAX);
    handler.spawn(write_all(outgoing, writing, limits.frame_bytes_max));
    loop {
        let next = timeout(limits.idle_max * 4, frame::read(&mut reading, limits.frame_bytes_max)).await;
        let frame = next.map_err(|_| io::ErrorKind::TimedOut)??;
        take(frame, &theirs, &handler, &out).await?;
    }
}

async fn take<H: Handler>(frame: Frame, theirs: &Hello, handler: &Arc<H>, out: &mpsc::Sender<Frame>) -> io::Result<()> {
    let id = frame.id;
    match frame.kind {
        Kind::Notice => {
            let notice: Notice = frame.message()?;
            if matches!(notice, Notice::Heartbeat(_)) {
                let _ = out.try_send(Frame { kind: Kind::Pong, id: 0, body: Vec::new() });
            }
            handler.notice(theirs, notice).await;
        }
        Kind::Request => {
            let request: Request = frame.message()?;
            let (serving, theirs, out) = (handler.clone(), theirs.clone(), out.clone());
            handler.spawn(async move {
                let response = serving.serve(&theirs, request).await;
                if let Ok(frame) = Frame::of(Kind::Response, id, &response) {
                    let _ = out.send(frame).await;
                }
            });
        }
        Kind::RaftRequest => {
            let (serving, out) = (handler.clone(), out.clone());
            handler.spawn(async move {
                let body = serving.serve_raft(frame.body).await;
                let _ = out.send(Frame { kind: Kind::RaftResponse, id, body }).await;
            });
        }
        Kind::Hello | Kind::Welcome | Kind::Response | Kind::RaftResponse | Kind::Pong => {}
    }
    Ok(())
}
