//! Who this disk is: the identity file and the lock of the data folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::disk::{self, Framed};
use crate::ids::{NodeId, Slot};

/// Format that this program writes, and the newest it reads.
pub(crate) const FORMAT: u8 = 1;

/// Who a node is. It stands on the node's volume and is checked at every connection between peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Drawn when the cluster was formed; empty until then.
    pub cluster_id: String,
    /// Name of the node.
    pub slot: Slot,
    /// Id of the node; 0 until it has joined.
    pub node_id: NodeId,
    /// Drawn when this disk was first used.
    pub store_uuid: String,
}

/// Why a data folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another process holds the lock.
    #[error("data folder {} is used by another process (pid {pid}); stop it first, or use another folder", folder.display())]
    Locked {
        /// The folder.
        folder: PathBuf,
        /// That process, as it wrote itself into the lock file; `unknown` if it did not.
        pid: String,
    },
    /// The folder belongs to somebody else.
    #[error(
        "data folder {} belongs to {what} \"{found}\", but this node is configured as \"{wanted}\". \
         Repair: correct the configuration, or give this node an empty folder", folder.display()
    )]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// `cluster` or `node`.
        what: &'static str,
        /// What the folder says.
        found: String,
        /// What the configuration says.
        wanted: String,
    },
    /// The identity was written by a newer program.
    #[error("{} has format {found}, this program reads up to {FORMAT}. Repair: run the newer program again", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u8,
    },
    /// The file is damaged.
    #[error(
        "{} is damaged ({why}). Repair: restore it from a copy of this volume, or give this node an empty folder; \
         it then joins under a new id", path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was wrong.
        why: String,
    },
    /// The disk refused.
    #[error(
        "cannot {action} {}: {source}. Repair: free space, check disk and rights, or set another node.data_dir",
        path.display()
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The lock of a data folder, held as long as this value lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

/// Takes the exclusive lock of a data folder, creating the folder where it is missing.
pub(crate) fn lock(folder: &Path) -> Result<Lock, IdentityError> {
    let path = folder.join("lock");
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| IdentityError::Io { action, path, source }
    };
    fs::create_dir_all(folder).map_err(io("create", folder))?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io("open", &path))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut pid = String::new();
        let _ = file.take(32).read_to_string(&mut pid);
        let pid = if pid.trim().is_empty() { "unknown".to_owned() } else { pid.trim().to_owned() };
        return Err(IdentityError::Locked { folder: folder.to_owned(), pid });
    }
    file.set_len(0).map_err(io("write", &path))?;
    file.seek(SeekFrom::Start(0)).map_err(io("write", &path))?;
    write!(file, "{}", std::process::id()).map_err(io("write", &path))?;
    Ok(Lock { _file: file })
}

/// Reads the identity of a data folder, or draws that of an empty one. Nothing but a folder of this cluster and
/// slot is accepted.
pub(crate) fn load(folder: &Path, cluster_name: &str, slot: &Slot) -> Result<Identity, IdentityError> {
    let path = folder.join("identity");
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return create(folder, cluster_name, slot),
        Err(source) => {
            return Err(IdentityError::Io { action: "read", path, source });
        }
    };
    let identity = decode(&bytes, &path)?;
    let foreign = |what, found: &str, wanted: &str| IdentityError::Foreign {
        folder: folder.to_owned(),
        what,
        found: found.to_owned(),
        wanted: wanted.to_owned(),
    };
    if identity.cluster_name != cluster_name {
        return Err(foreign("cluster", &identity.cluster_name, cluster_name));
    }
    if identity.slot != *slot {
        return Err(foreign("node", &identity.slot.0, &slot.0));
    }
    Ok(identity)
}

fn create(folder: &Path, cluster_name: &str, slot: &Slot) -> Result<Identity, IdentityError> {
    let identity = Identity {
        cluster_name: cluster_name.to_owned(),
        cluster_id: String::new(),
        slot: slot.clone(),
        node_id: NodeId(0),
        store_uuid: uuid::Uuid::new_v4().to_string(),
    };
    save(folder, &identity)?;
    Ok(identity)
}

/// Writes the identity durably.
pub(crate) fn save(folder: &Path, identity: &Identity) -> Result<(), IdentityError> {
    let path = folder.join("identity");
    let write = || -> io::Result<()> {
        let mut payload = vec![FORMAT];
        serde_json::to_writer(&mut payload, identity).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        disk::frame(&payload, &mut bytes)?;
        disk::write_atomically(&path, &bytes)
    };
    write().map_err(|source| IdentityError::Io { action: "write", path: path.clone(), source })
}

fn decode(bytes: &[u8], path: &Path) -> Result<Identity, IdentityError> {
    let damaged = |why: String| IdentityError::Damaged { path: path.to_owned(), why };
    let Framed::Record(payload, _) = disk::unframe(bytes) else {
        return Err(damaged("its checksum is wrong".into()));
    };
    match payload.split_first() {
        Some((&FORMAT, json)) => serde_json::from_slice(json).map_err(|e| damaged(e.to_string())),
        Some((&found, _)) if found > FORMAT => Err(IdentityError::Newer { path: path.to_owned(), found }),
        _ => Err(damaged("it has no known format".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(name: &str) -> Slot {
        Slot(name.into())
    }

    #[test]
    fn an_identity_survives_and_is_drawn_once() {
        let folder = tempfile::tempdir().unwrap();
        let first = load(folder.path(), "plant", &slot("a")).unwrap();
        assert_eq!(load(folder.path(), "plant", &slot("a")).unwrap(), first);
        let joined = Identity { node_id: NodeId(4), cluster_id: "c".into(), ..first };
        save(folder.path(), &joined).unwrap();
        assert_eq!(load(folder.path(), "plant", &slot("a")).unwrap(), joined);
    }

    #[test]
    fn a_folder_of_another_cluster_or_node_is_refused_with_both_names() {
        let folder = tempfile::tempdir().unwrap();
        load(folder.path(), "plant", &slot("a")).unwrap();
        let other = load(folder.path(), "mill", &slot("a")).unwrap_err().to_string();
        assert!(other.contains("cluster \"plant\"") && other.contains("\"mill\""), "{other}");
        let other = load(folder.path(), "plant", &slot("b")).unwrap_err().to_string();
        assert!(other.contains("node \"a\"") && other.contains("\"b\""), "{other}");
    }

    #[test]
    fn a_damaged_or_newer_identity_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        load(folder.path(), "plant", &slot("a")).unwrap();
        let good = fs::read(&path).unwrap();
        for damage in [vec![], good[..good.len() - 1].to_vec(), b"nonsense, but long enough".to_vec()] {
            fs::write(&path, &damage).unwrap();
            assert!(matches!(load(folder.path(), "plant", &slot("a")), Err(IdentityError::Damaged { .. })));
            assert_eq!(fs::read(&path).unwrap(), damage);
        }
        let mut newer = Vec::new();
        disk::frame(&[FORMAT + 1, b'{', b'}'], &mut newer).unwrap();
        fs::write(&path, &newer).unwrap();
        assert!(matches!(load(folder.path(), "plant", &slot("a")), Err(IdentityError::Newer { found: 2, .. })));
    }

    #[test]
    fn a_second_lock_is_refused_and_names_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path()).unwrap();
        let refused = lock(folder.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
        drop(held);
        lock(folder.path()).unwrap();
    }
}
