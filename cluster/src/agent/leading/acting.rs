//! What operators ask of the leader.

use tokio::sync::oneshot;

use crate::operation::{ActError, ActRequest, Acted, Preflight};
use crate::planner::{Resolved, preflight};
use crate::raft::{Applied, ProposeError};
use crate::state::{Batch, Command};

use super::{Input, Leading, Node};

impl Leading {
    /// Takes or refuses a request; the answer comes when it is committed.
    pub(crate) fn act(&self, request: ActRequest, reply: oneshot::Sender<Result<Acted, ActError>>) {
        let (since, group) = match (self.since, self.node.group()) {
            (Some(since), Some(group)) => (since, group),
            _ => return drop(reply.send(Err(ActError::NoLeader))),
        };
        let known = request.request_id.as_deref().and_then(|id| {
            let state = self.node.replicated.read();
            state.operations.of_request(id).map(|operation| (operation.id, operation.act == request.act))
        });
        match known.filter(|_| !request.dry_run) {
            Some((id, true)) => return drop(reply.send(Ok(Acted::Begun(id)))),
            Some((id, false)) => {
                let detail = format!("this request id is that of {id}, which is another act; choose a new one");
                return drop(reply.send(Err(refused(detail))));
            }
            None => {}
        }
        let checked = self.with_facts(self.node.now(), since, |facts, state| preflight(facts, state, &request.act));
        let Resolved { preflight, steps } = match checked {
            Ok(resolved) => resolved,
            Err(error) => return drop(reply.send(Err(error))),
        };
        if request.dry_run {
            return drop(reply.send(Ok(Acted::WouldDo(preflight))));
        }
        let command = Command::Begin { request: Box::new(request), steps, at: Node::wall() };
        let node = self.node.clone();
        self.node.spawn_task(async move {
            let result = group.propose(Batch { commands: vec![command] }).await;
            // Whoever asked may have gone.
            let _ = reply.send(answer_of(result));
            let _ = node.inputs.send(Input::Poke).await;
        });
    }
}

fn answer_of(result: Result<Applied, ProposeError>) -> Result<Acted, ActError> {
    match result {
        Ok(Applied { begun: Some(id), .. }) => Ok(Acted::Begun(id)),
        Ok(Applied { ignored, .. }) => Err(refused(format!("{}; ask again", ignored.join("; ")))),
        Err(ProposeError::NotLeader(_)) => Err(ActError::NoLeader),
        Err(error @ ProposeError::Failed(_)) => Err(ActError::Unknown(error.to_string())),
    }
}

fn refused(detail: String) -> ActError {
    ActError::Refused(Box::new(Preflight { allowed: false, detail, partitions: Vec::new() }))
}
