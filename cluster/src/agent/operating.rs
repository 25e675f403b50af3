//! Carries what operators ask for to the Raft leader.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::operation::{ActError, ActRequest, Acted};
use crate::transport::{Request, Response};

use super::duties::slot_at;
use super::node::Node;
use super::serve;

/// For the leader to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// A leader that is just being elected is waited for so long.
const LEADER_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Asks the leader, whichever node that is. A request without an id gets one, so that it can be asked again.
pub(crate) async fn act(node: &Arc<Node>, mut request: ActRequest) -> Result<Acted, ActError> {
    request.request_id.get_or_insert_with(|| uuid::Uuid::new_v4().to_string());
    let begin = Instant::now();
    loop {
        let answer = once(node, &request).await;
        let again = matches!(answer, Err(ActError::NoLeader | ActError::Unknown(_)));
        if !again || begin.elapsed() > LEADER_WITHIN {
            return answer;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn once(node: &Arc<Node>, request: &ActRequest) -> Result<Acted, ActError> {
    let status = node.raft_status();
    if status.is_leader {
        return serve::act(node, request.clone()).await;
    }
    let slot = status.leader.and_then(|id| slot_at(node, id)).ok_or(ActError::NoLeader)?;
    match node.links.request(&slot, &Request::Act(Box::new(request.clone())), ANSWER_WITHIN).await {
        Ok(Response::Acted(answer)) => answer,
        Ok(other) => Err(ActError::Unknown(format!("{slot} answered {other:?}"))),
        Err(error) => Err(ActError::Unknown(error.to_string())),
    }
}
