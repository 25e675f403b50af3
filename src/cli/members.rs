//! `hotspare members`.

use std::io::{self, Write};

use super::{
    client::{Client, ClientArgs, EXIT_DONE, Format},
    status::show::{Align, age, or_unknown, table},
};
use crate::http::document::{NodeDoc, StatusDoc};

/// `hotspare members`.
#[derive(Clone, Debug, clap::Args)]
pub struct MembersArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub client: ClientArgs,
    /// With ids that are never used again.
    #[arg(short, long)]
    pub all: bool,
}

/// Runs the command: results to `out`, errors to `err`. Returns the exit code. Blocks.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub fn run(args: &MembersArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let answer = Client::new(&args.client).get("/v1/status");
    match answer.and_then(|answer| Ok((answer.document::<StatusDoc>()?, answer))) {
        Ok((_, answer)) if args.client.format == Format::Json => writeln!(out, "{}", answer.body)?,
        Ok((status, _)) => out.write_all(render(&status, args.all).as_bytes())?,
        Err(error) => {
            writeln!(err, "{error}")?;
            return Ok(error.exit_code());
        }
    }
    Ok(EXIT_DONE)
}

/// The members of the Raft group, a line each.
#[must_use]
pub fn render(status: &StatusDoc, all: bool) -> String {
    use Align::{Left, Right};
    let columns =
        [("ID", Right), ("SLOT", Left), ("STORE", Left), ("RAFT", Left), ("INDEX", Right), ("LAST CONTACT", Right)];
    let leader = status.leader.as_ref().map(|leader| leader.node_id);
    let row = |node: &NodeDoc| {
        let raft = match (node.voter, leader == Some(node.node_id)) {
            (_, true) => "leader",
            (true, _) => "voter",
            (false, _) => "learner",
        };
        let own = node.node_id == status.this.node_id;
        vec![
            node.node_id.to_string(),
            node.slot.to_string(),
            node.store_uuid.clone(),
            raft.to_owned(),
            or_unknown(node.last_log_index, |index| index.to_string()),
            if own { "-".to_owned() } else { or_unknown(node.last_heard_ms, age) },
        ]
    };
    let mut text = table(&columns, &status.nodes.iter().map(row).collect::<Vec<_>>());
    if all {
        let gone: Vec<String> = status.tombstones.iter().map(ToString::to_string).collect();
        let gone = if gone.is_empty() { "none".to_owned() } else { gone.join(", ") };
        text.push_str(&format!("ids that are never used again: {gone}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{
        fixture::{snapshot, view},
        status,
    };

    #[test]
    fn members_are_a_line_each_and_gone_ids_are_shown_when_asked_for() {
        let mut view = view();
        view.nodes[0].voter = false;
        view.tombstones = vec![hotspare_cluster::NodeId(2)];
        let status = status(&snapshot(view));
        assert_eq!(
            render(&status, true),
            "ID  SLOT        STORE    RAFT     INDEX  LAST CONTACT\n \
             3  hotspare-0  disk-3   learner     90          21ms\n \
             4  hotspare-1  disk-4   leader      90          34ms\n\
             57  hotspare-2  disk-57  voter       90             -\n\
             ids that are never used again: 2\n"
        );
        assert!(!render(&status, false).contains("never"));
    }
}
