//! `hotspare config init`: proposes a configuration from sample records.

use std::io::{self, Write};
use std::path::PathBuf;

use crate::propose::{ProposeError, propose};

/// `hotspare config init`.
#[derive(Clone, Debug, clap::Args)]
pub struct InitArgs {
    /// Sample records: lines as `hotspare try` reads them, payloads one a line, or one JSON document; about 1000 are enough.
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// The input topic.
    #[arg(long, default_value = "readings")]
    pub topic: String,
}

/// Why there is no proposal.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The sample cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Nothing can be made of the sample.
    #[error("{}: {reason}", path.display())]
    Propose {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: ProposeError,
    },
    /// The proposal cannot be written.
    #[error("cannot write the proposal: {0}")]
    Write(#[from] io::Error),
}

/// Writes the tables `[input]` that fit the sample, with comments that say how sure each line is.
///
/// # Errors
/// [`InitError`]; nothing is written then.
pub fn run(arguments: &InitArgs, out: &mut impl Write) -> Result<(), InitError> {
    let path = || arguments.from.clone();
    let bytes = std::fs::read(&arguments.from).map_err(|source| InitError::Read { path: path(), source })?;
    let text = propose(&bytes, &arguments.topic).map_err(|reason| InitError::Propose { path: path(), reason })?;
    Ok(out.write_all(text.as_bytes())?)
}
